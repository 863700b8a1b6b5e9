# SPDX-License-Identifier: BSD-3-Clause
"""The battery's sources and sinks for one tensor of more than 4 GiB, of which all but a few bytes are zeros.

    run_battery_large.py --cairn PROGRAM [--env launch/env.sh]

As a torch file, a safetensors file and a DCP directory, each written by its library and made into each of the others, which the library
reads. Needs about 20 GB of disk and 10 GB of memory.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

SHAPE = (5, 858_993_463)  # 4 GiB and 19 bytes
BYTES = SHAPE[0] * SHAPE[1]
# Around the borders of 31 and 32 bits, of rows, and of what 3 ranks get.
MARKS = sorted({at + by for at in (0, 1 << 31, 1 << 32, BYTES, *(row * SHAPE[1] for row in range(1, 5)), SHAPE[1] // 3, 2 * SHAPE[1] // 3)
                for by in (-2, -1, 0, 1) if 0 <= at + by < BYTES})
SMALL = torch.arange(5.0)
PIECE = 64 << 20


def state(folder):
    """The large tensor's memory is a sparse file."""
    path = folder / "sparse"
    with open(path, "wb") as file:
        file.truncate(BYTES)
    flat = torch.from_file(str(path), shared=True, size=BYTES, dtype=torch.uint8)
    for i, at in enumerate(MARKS):
        flat[at] = 1 + i
    return {"large": flat.view(SHAPE), "small": SMALL}


def require(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def check(found, where):
    require(sorted(found) == ["large", "small"], f"{where}: {sorted(found)}")
    require(torch.equal(found["small"], SMALL), f"{where}: small")
    large = found["large"]
    require(large.shape == SHAPE and large.dtype == torch.uint8, f"{where}: {large.shape} {large.dtype}")
    flat = large.reshape(-1)
    marks = {}
    for at in range(0, BYTES, PIECE):
        piece = flat[at:at + PIECE]
        if piece.any():
            marks |= {at + i: int(piece[i]) for i in piece.nonzero().flatten().tolist()}
    require(marks == {at: 1 + i for i, at in enumerate(MARKS)}, f"{where}: bytes that are not zero at {sorted(marks)[:20]}")


def save_torch(folder, tensors):
    torch.save(tensors, folder / "source.pth")
    return folder / "source.pth"


def save_safetensors(folder, tensors):
    save_file(tensors, folder / "source.safetensors", metadata={"format": "pt"})
    return folder / "source.safetensors"


def save_dcp(folder, tensors):
    dcp.save(tensors, checkpoint_id=folder / "source", no_dist=True)
    return folder / "source"


def load_torch(path):
    return torch.load(path, mmap=True)


def load_safetensors(path):
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def load_dcp(path):
    wanted = {"large": torch.ones(SHAPE, dtype=torch.uint8), "small": torch.ones(5)}
    dcp.load(wanted, checkpoint_id=path, no_dist=True)
    return wanted


SOURCES = (save_torch, save_safetensors, save_dcp)
SINKS = (("result.pth", (), load_torch), ("result.safetensors", (), load_safetensors), ("result", (), load_dcp),
         ("columns", ("--ranks", "3", "--dim", "1"), load_dcp))


def run(options, folder):
    tensors = state(folder)
    for save in SOURCES:
        source = save(folder, tensors)
        for i, (name, words, load) in enumerate(SINKS):
            ranks = [options.env, "mpirun", "-n", "3"] if i % 2 == 0 else []
            command = [*ranks, options.cairn, "convert", "--no-sync", str(source), str(folder / name), *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
            require(done.returncode == 0, f"{' '.join(command)}: status {done.returncode}: {done.stderr[-1500:]}")
            check(load(folder / name), f"{save.__name__} to {name}")
            print(f"ok     {save.__name__} to {name}{', 3 ranks' if ranks else ''}", flush=True)
            remove(folder / name)
        remove(source)


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cairn", required=True, type=lambda p: str(pathlib.Path(p).resolve()))
    parser.add_argument("--env", default=str(HERE.parents[1] / "launch" / "env.sh"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cairn-battery-large-"))
    try:
        run(options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
