# SPDX-License-Identifier: BSD-3-Clause
"""make_checkpoint.py PATH: a checkpoint of 4 ranks, __0_0.distcp to __3_0.distcp, some 9 MiB, every element numbered."""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "cli"))

import tiny_checkpoint  # noqa: E402

FILES = [f"__{rank}_0.distcp" for rank in range(4)]


def columns(name, height, width, cuts):
    """A matrix of which every rank has some columns."""
    bounds = [0, *cuts, width]
    pieces = []
    for file, begin, end in zip(FILES, bounds, bounds[1:]):
        numbers = (float(row * width + column) for row in range(height) for column in range(begin, end))
        count = height * (end - begin)
        pieces.append(((0, begin), (height, end - begin), file, struct.pack(f"<{count}f", *numbers)))
    return name, "float32", (height, width), pieces


def main(path):
    directory = tiny_checkpoint.Directory(path)
    directory.object("step", 7, FILES[2])
    directory.tensor(*tiny_checkpoint.rows("net.rows", (1021, 2048), [200, 511, 900], FILES), path=("net", "rows"))
    directory.tensor(*columns("net.columns", 512, 515, [100, 130, 400]), path=("net", "columns"))
    directory.tensor(*tiny_checkpoint.rows("net.last", (3,), [], FILES[3:]), path=("net", "last"))
    directory.write()


if __name__ == "__main__":
    main(sys.argv[1])
