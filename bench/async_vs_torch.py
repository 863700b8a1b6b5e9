#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Saving in the background: how long Cairn's call blocks the job, beside memcpy of the same memory, and torch's async_save on gloo.

    async_vs_torch.py [--mib 2048] [--tensors 32] [--ranks 4] [--rounds 3] [--multiple] [--dir DIR] [--program ASYNC_RATE]

Second and later saves of an unchanged state, each into a new directory, not synced. The jobs of both sides take turns, round by round; each
saves once before it is measured. Torch's writer cannot keep its staged copy without an accelerator. Prints one JSON line with medians and ratios; `slowed` is the time of a step of computing while Cairn's save is under way, against one alone.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import common

TREE = pathlib.Path(__file__).resolve().parent.parent

THEIRS = """
import os, shutil, sys, time
os.environ["OMP_NUM_THREADS"] = "1"
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
import torch.multiprocessing as multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

def job(rank, ranks, directory, mib, tensors):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=ranks)
    mesh = init_device_mesh("cpu", (ranks,))
    apart = dist.new_group()  # the save in the background has the other group to itself
    elements = (mib << 20) // (4 * tensors * ranks)
    columns = min(1024, elements)
    state = {f"layers.{i}.weight": DTensor.from_local(torch.full((elements // columns, columns), float(i)), mesh, [Shard(0)])
             for i in range(tensors)}
    for turn in range(2):
        writer = dcp.FileSystemWriter(f"{directory}/torch.{turn}", sync_files=False)
        dist.barrier(apart)
        start = time.perf_counter()
        running = dcp.async_save(state, storage_writer=writer)
        dist.barrier(apart)
        blocked = time.perf_counter() - start
        running.result()
        dist.barrier(apart)
        if rank == 0:
            if turn > 0:
                print(blocked, time.perf_counter() - start, flush=True)
            shutil.rmtree(f"{directory}/torch.{turn}")
        dist.barrier(apart)
    dist.destroy_process_group()

if __name__ == "__main__":
    directory, mib, tensors, ranks = sys.argv[1], *map(int, sys.argv[2:5])
    multiprocessing.spawn(job, (ranks, directory, mib, tensors), nprocs=ranks)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--tensors", type=int, default=32)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--multiple", action="store_true", help="MPI_THREAD_MULTIPLE")
    parser.add_argument("--dir", default=str(TREE / "build" / "tmp"))
    parser.add_argument("--program", default=str(TREE / "build" / "release" / "bench" / "async_rate"))
    arguments = parser.parse_args()
    python = TREE / "build" / "venv" / "bin" / "python"
    pathlib.Path(arguments.dir).mkdir(parents=True, exist_ok=True)
    found = {}
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory(dir=arguments.dir) as scratch:
            ours = subprocess.run([TREE / "launch" / "env.sh", "mpirun", "-n", str(arguments.ranks), arguments.program, scratch,
                                   str(arguments.mib), str(arguments.tensors), "1", *(["multiple"] if arguments.multiple else [])],
                                  check=True, stdout=subprocess.PIPE, text=True).stdout
            line = json.loads(ours)
            script = pathlib.Path(scratch) / "theirs.py"
            script.write_text(THEIRS)
            theirs = subprocess.run([python, "-W", "ignore", script, scratch, str(arguments.mib), str(arguments.tensors), str(arguments.ranks)],
                                    check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=common.LOOPBACK | os.environ).stdout.split()
            line |= dict(zip(("torch", "torch_whole"), map(float, theirs)))
            for name, value in line.items():
                found.setdefault(name, []).append(value)
    median = {name: statistics.median(values) for name, values in found.items()}
    print(json.dumps({"workload": "async_save", "mib": arguments.mib, "tensors": arguments.tensors, "ranks": arguments.ranks,
                      "multiple": arguments.multiple, "rounds": arguments.rounds,
                      "all": {name: [round(value, 4) for value in values] for name, values in found.items()},
                      "of_memcpy": round(median["blocked"] / median["memcpy"], 3),
                      "times_torch": round(median["torch"] / median["blocked"], 2),
                      "slowed": round(median["slowed"] / median["step"], 2)}))


if __name__ == "__main__":
    sys.exit(main())
