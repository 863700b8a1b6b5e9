# SPDX-License-Identifier: BSD-3-Clause
"""make_layouts.py > layouts.tsv: which elements of a tensor each rank of a mesh holds, as torch's DTensor says.

One line a rank: shape, mesh, placements ("r" replicate, "s0" shard dimension 0, "t0:2" strided with split factor 2),
rank, local shape, global offset ("-" for an empty part), and for each dimension the elements held, in local order.
"""

import itertools
import random

import torch
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import _StridedShard, _StridedShardOffsetMode


def placement(text):
    if text == "r":
        return Replicate()
    if text[0] == "s":
        return Shard(int(text[1:]))
    dim, factor = text[1:].split(":")
    return _StridedShard(int(dim), split_factor=int(factor))


def elements(shape, mesh, coordinate, placements):
    """What is left of each dimension, placement by placement."""
    held = [torch.arange(size) for size in shape]
    for axis, how in enumerate(placements):
        if isinstance(how, Replicate):
            continue
        size = len(held[how.dim])
        if isinstance(how, _StridedShard):
            _, at = how._local_shard_size_and_offset(size, mesh[axis], coordinate[axis], _StridedShardOffsetMode.ALL)
            held[how.dim] = held[how.dim][torch.tensor(at, dtype=torch.int64)]
        else:
            length, first = how._local_shard_size_and_offset(size, mesh[axis], coordinate[axis])
            held[how.dim] = held[how.dim][first : first + length] if length else held[how.dim][:0]
    return [part.tolist() for part in held]


def ranges(values):
    out = []
    for value in values:
        if out and out[-1][1] == value:
            out[-1][1] = value + 1
        else:
            out.append([value, value + 1])
    return ",".join(f"{begin}:{end}" for begin, end in out) or "-"


def joined(values):
    return ",".join(map(str, values)) or "-"


def show(shape, mesh, texts):
    placements = [placement(text) for text in texts]
    for rank, coordinate in enumerate(itertools.product(*map(range, mesh))):
        local, offset = _compute_local_shape_and_global_offset(shape, mesh, list(coordinate), placements)
        held = elements(shape, mesh, coordinate, placements)
        assert [len(part) for part in held] == list(local)
        where = "-" if 0 in local else joined(offset)
        print(joined(shape), joined(mesh), joined(texts), rank, joined(local), where,
              "|".join(map(ranges, held)) or "-", sep="\t")


def main():
    for size in (0, 1, 2, 3, 7, 8, 9, 16):
        for ranks in (1, 2, 3, 4, 5, 8):
            show((size,), (ranks,), ["s0"])
    for mesh in ((2, 2), (3, 2), (2, 4)):
        for size in (8, 10, 12, 24, 7, 1):
            show((size, 7), mesh, [f"t0:{mesh[1]}", "s0"])
            show((size, 7), mesh, ["s0", "s0"])
            show((size, 7), mesh, ["s0", "s1"])
            show((size, 7), mesh, ["r", "s1"])
    show((9,), (4,), ["t0:2"])
    show((24, 6), (2, 2, 2), ["t0:4", "t0:2", "s0"])
    show((), (3,), ["r"])
    choice = random.Random(6)
    for _ in range(60):
        mesh = tuple(choice.randint(1, 4) for _ in range(choice.randint(1, 3)))
        shape = tuple(choice.randint(0, 13) for _ in range(choice.randint(1, 3)))
        texts = []
        for _ in mesh:
            dim = choice.randrange(len(shape))
            texts.append(choice.choice(["r", f"s{dim}", f"s{dim}", f"t{dim}:{choice.randint(1, 4)}"]))
        show(shape, mesh, texts)


main()
