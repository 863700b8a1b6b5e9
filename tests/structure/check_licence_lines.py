# SPDX-License-Identifier: BSD-3-Clause
"""check_licence_lines.py ROOT: every source file has exactly one SPDX line, among its first three."""

import sys

from source_files import source_files

LINE = "SPDX-License-" + "Identifier: BSD-3-Clause"
SUFFIXES = {".cpp", ".hpp", ".py", ".sh", ".cmake", "CMakeLists.txt", "run",
            ".sbatch", ".def", ".yaml", "Containerfile"}


def fault(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [number for number, line in enumerate(lines, 1) if line.endswith(LINE)]
    if not found:
        return f"{path}: no line '{LINE}'"
    if len(found) > 1 or found[0] > 3:
        return f"{path}: SPDX lines at {found}, expected one among the first three"
    return None


def main(root):
    files = list(source_files(root, SUFFIXES))
    faults = [text for text in map(fault, files) if text]
    print("\n".join(faults) or f"{len(files)} files")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
