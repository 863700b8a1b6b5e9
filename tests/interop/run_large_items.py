# SPDX-License-Identifier: BSD-3-Clause
"""Items around 4 GiB: what torch.save puts around the payload, against item_frame.

    run_large_items.py --program ITEM_FRAME

torch writes zeros, which take no memory, to a stream that keeps what is not payload.
"""
import argparse
import subprocess
import sys
import zlib

import numpy
import torch

EDGE = 1 << 16  # more than what lies around a payload
GIB = 1 << 30
CASES = [("uint8", (4 * GIB - 2,)), ("uint8", (4 * GIB - 1,)), ("uint8", (4 * GIB,)), ("bfloat16", (3, GIB)), ("float8_e5m2", (4 * GIB + 64,)),
         ("int64", (1000, 3))]


class EdgeStream:
    """Keeps the first and the last bytes of what is written."""

    def __init__(self):
        self.size = 0
        self.first = b""
        self.last = b""

    def write(self, data):
        view = memoryview(data).cast("B")
        if len(self.first) < EDGE:
            self.first += bytes(view[:EDGE - len(self.first)])
        self.last = (self.last + bytes(view[-EDGE:]))[-EDGE:]
        self.size += len(view)
        return len(view)

    def flush(self):
        pass


def zeros(dtype, shape):
    size = torch.Size(shape).numel() * dtype.itemsize
    return torch.from_numpy(numpy.zeros(size, dtype=numpy.uint8)).view(dtype).reshape(shape)


def crc_of_zeros(count):
    piece = bytes(1 << 26)
    crc = 0
    while count:
        crc = zlib.crc32(piece[:min(count, len(piece))], crc)
        count -= min(count, len(piece))
    return crc


def check(program, name, shape):
    tensor = zeros(getattr(torch, name), shape)
    stream = EdgeStream()
    torch.save(tensor, stream)
    crc = crc_of_zeros(tensor.nbytes)
    ours = subprocess.run([program, name, str(crc), *map(str, shape)], capture_output=True, check=True).stdout
    around = stream.size - tensor.nbytes
    if len(ours) != around:
        return f"{len(ours)} bytes around the payload, expected {around}"
    head = stream.first.index(b"archive/data/0") if around < EDGE else 0
    head = -(-(head + len("archive/data/0")) // 64) * 64  # at least; the pad's field may take it further
    same_head = [n for n in (head, head + 64) if ours[:n] == stream.first[:n] and ours[n:] == stream.last[-(around - n):]]
    return None if same_head else "other bytes around the payload"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    failures = 0
    for name, shape in CASES:
        fault = check(options.program, name, shape)
        failures += fault is not None
        print(f"{'ok    ' if fault is None else 'FAILED'} {name} {shape} {fault or ''}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
