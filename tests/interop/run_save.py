# SPDX-License-Identifier: BSD-3-Clause
"""Directories that Cairn's save wrote on N ranks (mpi_tests/save_job.cpp), read by torch.

    run_save.py --program SAVE_JOB --env ENV.SH --cairn CAIRN [--ranks N …]

torch.distributed.checkpoint loads every tensor bit by bit and every object, in this process and as DTensors on 1, 2 and 4 ranks of
gloo; dcp_to_torch_save converts the directory; `cairn verify` finds it whole. The same state as one torch file, without a directory in
between, is loaded by torch.load.
"""
import argparse
import functools
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save  # noqa: E402

DTYPES = ("bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 uint16 uint32 uint64 complex32 "
          "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2 bits1x8 bits2x4 bits4x2 bits8 "
          "bits16").split()


def tensors(ranks):
    """(name, dtype, shape) in order of their seeds."""
    listed = [("rows", "float32", (37, 11)), ("columns", "bfloat16", (9, 50)), ("replicated", "float64", (13, 7)),
              ("large_replicated", "uint8", (700_000, 3)), ("large_rows", "int32", (3_000, 1_001)), ("few_rows", "int16", (2, 5)),
              ("scalar", "int64", ()), ("empty", "float16", (0, 4))]
    if ranks % 2 == 0:
        listed += [("grid", "complex64", (6, 10)), ("hybrid", "float32", (16, 3))]
    return listed + [(f"dtype.{name}", name, (7, 6)) for name in DTYPES]


@functools.cache
def expected_bytes(byte_count, seed, dtype=None):
    at = torch.arange(byte_count, dtype=torch.int64)
    return ((at * 31 + (at >> 8) * 17 + seed * 7) & (1 if dtype == "bool" else 0xff)).to(torch.uint8)


def empty(dtype, shape):
    size = torch.empty((), dtype=getattr(torch, dtype)).element_size()
    count = torch.Size(shape).numel()
    return torch.zeros(count * size, dtype=torch.uint8).view(getattr(torch, dtype)).reshape(shape)


def raw(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)


def objects(ranks):
    known = {"step": 25, "lr": 0.1, "name": "grün \n", "nothing": None, "yes": True, "blob": b"\0\xff\n",
             "nested": {"betas": (0.9, 0.999), 2: [1, None, "x"]}, "optim.groups.0.lr": 0.5, "optim.groups.0.params": [0, 1],
             "optim.step": 3}
    return known | {f"loader.rank_{rank}": {"rank": rank} for rank in range(ranks)}


def require(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def check_loaded(state, ranks, where):
    for seed, (name, dtype, shape) in enumerate(tensors(ranks)):
        found = state[name]
        require(tuple(found.shape) == shape, f"{where}: {name} has shape {tuple(found.shape)}")
        bytes_found = raw(found)
        require(torch.equal(bytes_found, expected_bytes(bytes_found.numel(), seed, dtype)), f"{where}: {name} differs")


def check_with_torch(directory, ranks):
    state = {name: empty(dtype, shape) for name, dtype, shape in tensors(ranks)} | {name: None for name in objects(ranks)}
    dcp.load(state, checkpoint_id=directory)
    check_loaded(state, ranks, directory)
    for name, value in objects(ranks).items():
        require(state[name] == value and type(state[name]) is type(value), f"{directory}: {name} is {state[name]!r}")


def load_as_dtensors(rank, world, directory, ranks, store):
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, zeros
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    wanted = [(seed, name, dtype, shape) for seed, (name, dtype, shape) in enumerate(tensors(ranks))
              if len(shape) == 2 and shape[0] and dtype in ("float32", "int32", "uint8", "float64")]
    for dim in (0, 1):
        state = {name: zeros(shape, dtype=getattr(torch, dtype), device_mesh=mesh, placements=[Shard(dim)])
                 for _seed, name, dtype, shape in wanted}
        dcp.load(state, checkpoint_id=directory)
        for seed, name, _dtype, _shape in wanted:
            bytes_found = raw(state[name].full_tensor())
            if not torch.equal(bytes_found, expected_bytes(bytes_found.numel(), seed)):
                raise AssertionError(f"{directory}: {name} on {world} ranks, dimension {dim}, differs")
    dist.destroy_process_group()


def check_converted(directory, ranks, scratch):
    target = scratch / "converted.pth"
    dcp_to_torch_save(directory, target)
    state = torch.load(target, weights_only=False)
    require(state["optim"] == {"groups": [{"lr": 0.5, "params": [0, 1]}], "step": 3}, f"{directory}: optim is {state['optim']}")
    check_loaded(state, ranks, target)


def check_live(file, ranks):
    state = torch.load(file, weights_only=True)
    require(state["optim"] == {"groups": [{"lr": 0.5, "params": [0, 1]}], "step": 3}, f"{file}: optim is {state['optim']}")
    check_loaded(state, ranks, file)
    for name, value in objects(ranks).items():
        if not name.startswith("optim."):
            require(state[name] == value and type(state[name]) is type(value), f"{file}: {name} is {state[name]!r}")


def check_directory(directory, words, arguments, ranks, scratch):
    metadata = pickle.loads((directory / ".metadata").read_bytes())
    announced = getattr(metadata, "cairn_manifest", None)
    require((announced is None) == ("nomanifest" in words), f"{directory}: the metadata announces {announced}")
    require((directory / "cairn.manifest").exists() == ("nomanifest" not in words), f"{directory}: manifest")
    check_with_torch(directory, ranks)
    check_converted(directory, ranks, scratch)
    if "live" in words or "live_shared" in words:
        check_live(pathlib.Path(f"{directory}.pth"), ranks)
    require((directory / "meta.pt").exists() == ("meta" in words), f"{directory}: meta.pt")
    if "meta" in words:
        require(torch.load(directory / "meta.pt", weights_only=True) == {"epoch": 3, "names": ["a", 0.5]}, f"{directory}: what meta.pt holds")
    subprocess.run([arguments.cairn, "verify", "--strict", str(directory)], check=True)


def save(arguments, ranks, directory, words):
    subprocess.run([arguments.env, "mpirun", "-n", str(ranks), arguments.program, str(directory), *words], check=True,
                   stdout=subprocess.DEVNULL)


def refuse(arguments, ranks, directory, words, text):
    before = {path.name: path.read_bytes() for path in directory.iterdir()} if directory.exists() else {}
    done = subprocess.run([arguments.env, "mpirun", "-n", str(ranks), arguments.program, str(directory), *words],
                          capture_output=True, text=True)
    require(done.returncode != 0 and done.stderr.count(text) >= ranks, f"{words} on {ranks}: not refused on all: {done.stderr}")
    after = {path.name: path.read_bytes() for path in directory.iterdir()} if directory.exists() else {}
    require(before == after, f"{words} on {ranks}: the directory has changed")


def main():
    parser = argparse.ArgumentParser()
    for option in ("program", "env", "cairn"):
        parser.add_argument(f"--{option}", required=True)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 4, 8])
    arguments = parser.parse_args()
    variants = [["live"], ["strided", "check", "live_shared"], ["split", "files", "async", "meta"], ["lowest", "nomanifest"], ["twice"]]
    with tempfile.TemporaryDirectory(prefix="cairn-save-") as scratch:
        scratch = pathlib.Path(scratch)
        for ranks in arguments.ranks:
            for words in variants if ranks in (1, 4) else variants[:2]:
                directory = scratch / f"n{ranks}-{'-'.join(words)}"
                save(arguments, ranks, directory, words)
                check_directory(directory, words, arguments, ranks, scratch)
            plain = scratch / f"n{ranks}-live"
            refuse(arguments, ranks, plain, [], "a checkpoint is there already")
            if ranks > 1:
                refuse(arguments, ranks, scratch / "differ", ["differ"], "'optim.step': ranks 0 and")
                require(not any((scratch / "differ").glob("*")), "differ: something was written")
            save(arguments, ranks, plain, ["overwrite"])
            check_directory(plain, [], arguments, ranks, scratch)
            names = sorted(path.name for path in plain.glob("*.distcp"))
            require(names == sorted(f"__{rank}_1.distcp" for rank in range(ranks)), f"overwritten: {names}")
        beside = scratch / "n4-split-files-async-meta"
        save(arguments, 4, beside, ["overwrite"])
        check_directory(beside, [], arguments, 4, scratch)  # meta.pt went with the checkpoint that it belonged to
        for world in (1, 2, 4):
            store = scratch / f"store{world}"
            multiprocessing.spawn(load_as_dtensors, (world, str(scratch / "n4-live"), 4, str(store)), nprocs=world)
    print("saved on", arguments.ranks, "ranks and read by torch", torch.__version__)


if __name__ == "__main__":
    main()
