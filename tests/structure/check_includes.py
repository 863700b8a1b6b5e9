# SPDX-License-Identifier: BSD-3-Clause
"""check_includes.py ROOT: every #include of src/, include/ and apps/ points into its own folder or downwards.

Rows, from the bottom; folders of one row do not include each other. A public header belongs to the folder that
its "Row:" comment names. Third-party headers stay inside the folders that FENCES gives them.
"""

import pathlib
import re
import sys

ROWS = [
    {"base"},
    {"tensor"},
    {"plan", "parallel", "storage", "pickle", "zip", "device"},
    {"formats"},
    {"engine"},
    {"checkpoint"},
    {"mpi"},
    {"torch"},
    {"apps"},
]
HEIGHT = {folder: height for height, row in enumerate(ROWS) for folder in row}

# Third-party header: where it may be included, as patterns of paths below the root.
FENCES = [
    (r"mpi\.h", r"src/mpi/|include/cairn/mpi\.hpp$|apps/elastic_training/"),
    (r"nccl\.h", r"src/mpi/"),
    (r"boost/", r"apps/"),
    (r"hdf5(_hl)?\.h|H5\w*\.h", r"src/formats/hdf5"),
    (r"(torch|ATen|c10|caffe2)/", r"src/torch/|include/cairn/torch\.hpp$|apps/elastic_training/"),
    (r"nlohmann/", r"src/formats/|apps/"),
]

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
ROW = re.compile(r"^// Row: (\w+)\.", re.MULTILINE)
SUFFIXES = {".cpp", ".hpp", ".cc", ".c", ".h", ".cu", ".ipp"}


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.files = [
            path.relative_to(self.root)
            for top in ("src", "include", "apps")
            for path in sorted((self.root / top).rglob("*"))
            if path.suffix in SUFFIXES
        ]
        self.public_row = {
            path.relative_to("include").as_posix(): self._row_comment(path)
            for path in self.files
            if path.parts[0] == "include"
        }

    def _row_comment(self, path):
        found = ROW.findall(self.text(path))
        return found[0] if len(found) == 1 and found[0] in HEIGHT else None

    def text(self, path):
        return (self.root / path).read_text(encoding="utf-8")

    def folder_of_file(self, path):
        """The row's folder a file belongs to; None if it lies in no known one."""
        if path.parts[0] == "apps":
            return "apps"
        if path.parts[0] == "include":
            return self.public_row[path.relative_to("include").as_posix()]
        return path.parts[1] if len(path.parts) > 2 and path.parts[1] in HEIGHT else None

    def folder_of_include(self, name, includer):
        """The folder that `#include "name"` leads to; None if it is no file of the project."""
        if name in self.public_row:
            return self.public_row[name]
        if (self.root / "src" / name).is_file():
            return self.folder_of_file(pathlib.Path("src", name))
        beside_apps = [self.root / "apps" / name, (self.root / includer).parent / name]
        if includer.parts[0] == "apps" and any(path.is_file() for path in beside_apps):
            return "apps"
        return None


def direction_fault(mine, theirs):
    if theirs == mine or HEIGHT[theirs] < HEIGHT[mine]:
        return None
    if HEIGHT[theirs] == HEIGHT[mine]:
        return f"sideways: {mine} and {theirs} are siblings"
    return f"upwards: {mine} lies below {theirs}"


def fence_fault(path, name):
    for header, allowed in FENCES:
        if re.match(header, name) and not re.match(allowed, path.as_posix()):
            return "this third-party header is not allowed here"
    return None


def include_fault(tree, path, mine, quote, name):
    theirs = tree.folder_of_include(name, path)
    if theirs is None:
        if name in tree.public_row:
            return None  # reported once, for the header itself
        return "no file of the project" if quote == '"' else fence_fault(path, name)
    if path.parts[0] == "include" and name not in tree.public_row:
        return "a public header includes public headers only"
    return direction_fault(mine, theirs)


def file_faults(tree, path):
    mine = tree.folder_of_file(path)
    if mine is None:
        where = "a comment '// Row: FOLDER.'" if path.parts[0] == "include" else "a folder of src/ with a row"
        return [f"{path}: needs {where}"]
    found = []
    for match in INCLUDE.finditer(tree.text(path)):
        text = include_fault(tree, path, mine, *match.groups())
        if text:
            line = tree.text(path).count("\n", 0, match.start()) + 1
            found.append(f"{path}:{line}: includes {match[2]}: {text}")
    return found


def faults(root):
    """All violations of the tree at root, one sentence each; a tree without sources is one."""
    tree = Tree(root)
    if not tree.files:
        return [f"{root}: no sources found"]
    return [text for path in tree.files for text in file_faults(tree, path)]


if __name__ == "__main__":
    found_faults = faults(sys.argv[1])
    print("\n".join(found_faults) or "all includes point downwards")
    sys.exit(1 if found_faults else 0)
