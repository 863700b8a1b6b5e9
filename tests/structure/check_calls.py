# SPDX-License-Identifier: BSD-3-Clause
"""check_calls.py ROOT: the tables of docs/collective-calls.md name every function and class of include/cairn, and nothing
that is not there."""

import pathlib
import re
import sys

FUNCTION = re.compile(r"^(?!class|struct|enum|using|template|namespace)[A-Za-z][^(=\n]*?(\w+)\(", re.M)
CLASS = re.compile(r"^class (\w+)[^;]*?\{", re.M)


def declared(header):
    """Functions and classes at namespace level: what begins a line. Structs are data."""
    return set(FUNCTION.findall(header)) | set(CLASS.findall(header))


def documented(page):
    """All words of the first cells' code, `~X` without its sign."""
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ")]
    return {word for cell in cells for code in re.findall(r"`([^`]*)`", cell) for word in re.findall(r"\w+", code)}


def faults(root):
    root = pathlib.Path(root)
    names = documented((root / "docs/collective-calls.md").read_text(encoding="utf-8"))
    headers = {path.name: path.read_text(encoding="utf-8") for path in sorted((root / "include/cairn").glob("*.hpp"))}
    words = set(re.findall(r"\w+", " ".join(headers.values())))
    found = [f"{name}: {call} is not in docs/collective-calls.md" for name, text in headers.items() for call in sorted(declared(text) - names)]
    found += [f"docs/collective-calls.md: include/cairn has no {name}" for name in sorted(names - words)]
    return found if headers else [f"{root}: no headers"]


if __name__ == "__main__":
    found_faults = faults(sys.argv[1])
    print("\n".join(found_faults) or "all calls are in the tables")
    sys.exit(1 if found_faults else 0)
