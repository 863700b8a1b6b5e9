# SPDX-License-Identifier: BSD-3-Clause
"""check_format.py CLANG_FORMAT ROOT: every C++ file is laid out as .clang-format says."""

import subprocess
import sys

from source_files import source_files


def main(clang_format, root):
    files = [str(path) for path in source_files(root, {".cpp", ".hpp"})]
    if not files:
        sys.exit("no C++ files found")
    return subprocess.run([clang_format, "--dry-run", "-Werror", *files]).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
