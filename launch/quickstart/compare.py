# SPDX-License-Identifier: BSD-3-Clause
"""compare.py RESULT RESULT: compares the two outputs bit by bit and prints the table of who took how long.

Equal means: the same nesting, key types and order, the same types of plain values, and tensors of the same
dtype, shape and bits. Both are opened by plain torch.load, which allows nothing but tensors and plain values.
"""

import json
import os
import sys

import torch


def difference(ours, theirs, path=()):
    """Where and how the two differ first; None if they do not."""
    if type(ours) is not type(theirs):
        return path, f"{type(ours).__name__} and {type(theirs).__name__}"
    if isinstance(ours, torch.Tensor):
        return None if same_tensor(ours, theirs) else (path, "tensors differ")
    if isinstance(ours, dict):
        if [(type(key), key) for key in ours] != [(type(key), key) for key in theirs]:
            return path, f"keys {list(ours)} and {list(theirs)}"
        return first_difference(ours.items(), theirs.values(), path)
    if isinstance(ours, (list, tuple)):
        if len(ours) != len(theirs):
            return path, f"{len(ours)} and {len(theirs)} elements"
        return first_difference(enumerate(ours), theirs, path)
    return None if ours == theirs else (path, f"{ours!r} and {theirs!r}")


def first_difference(ours, theirs, path):
    found = (difference(mine, other, (*path, key)) for (key, mine), other in zip(ours, theirs))
    return next(filter(None, found), None)


def same_tensor(ours, theirs):
    if (ours.dtype, ours.shape, ours.requires_grad) != (theirs.dtype, theirs.shape, theirs.requires_grad):
        return False
    bits = [tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (ours, theirs)]
    return torch.equal(*bits)


def leaves(value):
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return [value]
    return [leaf for element in value for leaf in leaves(element)]


def table(rows):
    lines = [f"{'who':<34} {'seconds':>8} {'peak RSS':>10} {'GB/s':>6}"]
    for row in rows:
        speed = os.path.getsize(row["output"]) / row["seconds"] / 1e9
        lines.append(f"{row['who']:<34} {row['seconds']:>8.2f} {row['peak_rss_bytes'] / 2**20:>6.0f} MiB {speed:>6.2f}")
    return "\n".join(lines)


def main(*results):
    rows = []
    for result in results:
        with open(result, encoding="utf-8") as file:
            rows.append(json.load(file))
    ours, theirs = (torch.load(row["output"], mmap=True) for row in rows)
    found = difference(ours, theirs)
    if found:
        sys.exit(f"the outputs differ at {found[0]}: {found[1]}")
    tensors = [leaf for leaf in leaves(ours) if isinstance(leaf, torch.Tensor)]
    size = sum(tensor.nbytes for tensor in tensors)
    print(f"{rows[0]['output']}: {len(tensors)} tensors, {size / 1e6:.0f} MB: bit for bit what torch makes of it\n")
    print(table(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
