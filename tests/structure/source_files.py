# SPDX-License-Identifier: BSD-3-Clause
"""The project's own source files, with or without git."""

import pathlib
import subprocess

SKIPPED = {"build", ".git"}


def source_files(root, suffixes):
    """Paths below root with one of the suffixes (or exact names): tracked ones, or all outside build/."""
    root = pathlib.Path(root)
    for path in sorted(_tracked(root) or _all(root)):
        if (path.suffix in suffixes or path.name in suffixes) and path.is_file():
            yield path


def _tracked(root):
    listing = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True)
    return [root / name.decode() for name in listing.stdout.split(b"\0") if name]


def _all(root):
    return [path for path in root.rglob("*") if not SKIPPED & set(path.relative_to(root).parts)]
