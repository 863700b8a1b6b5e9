#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Saving a state that is in memory: Cairn, plain writes of the same memory, and torch.distributed.checkpoint on gloo.

    save_vs_torch.py [--mib 2048] [--tensors 32] [--ranks 4] [--rounds 5] [--sync] [--dir DIR] [--program SAVE_RATE]

`--mib 391 --tensors 100000 --ranks 1` is 100 000 tensors of 4 KiB. Second and later saves of an unchanged state, each into a new directory. The jobs of both sides take turns, round by round; each saves once
before it is measured. Prints one JSON line with medians and ratios.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parent.parent

THEIRS = """
import os, shutil, sys, time
os.environ["OMP_NUM_THREADS"] = "1"
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
import torch.multiprocessing as multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

def job(rank, ranks, directory, mib, tensors, sync):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=ranks)
    mesh = init_device_mesh("cpu", (ranks,))
    elements = (mib << 20) // (4 * tensors * ranks)
    columns = min(1024, elements)
    state = {f"layers.{i}.weight": DTensor.from_local(torch.full((elements // columns, columns), float(i)), mesh, [Shard(0)])
             for i in range(tensors)}
    planner = dcp.DefaultSavePlanner(enable_plan_caching=True)
    for turn in range(2):
        writer = dcp.FileSystemWriter(f"{directory}/torch.{turn}", sync_files=sync)
        dist.barrier()
        start = time.perf_counter()
        dcp.save(state, storage_writer=writer, planner=planner)
        dist.barrier()
        if rank == 0:
            print(time.perf_counter() - start, flush=True)
            shutil.rmtree(f"{directory}/torch.{turn}")
        dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    directory, mib, tensors, ranks, sync = sys.argv[1], *map(int, sys.argv[2:6])
    multiprocessing.spawn(job, (ranks, directory, mib, tensors, bool(sync)), nprocs=ranks)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--tensors", type=int, default=32)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--dir", default=str(TREE / "build" / "tmp"))
    parser.add_argument("--program", default=str(TREE / "build" / "release" / "bench" / "save_rate"))
    arguments = parser.parse_args()
    python = TREE / "build" / "venv" / "bin" / "python"
    pathlib.Path(arguments.dir).mkdir(parents=True, exist_ok=True)
    found = {"raw": [], "save": [], "torch": [], "plan_s": []}
    beside_state = 0
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory(dir=arguments.dir) as scratch:
            ours = subprocess.run([TREE / "launch" / "env.sh", "mpirun", "-n", str(arguments.ranks), arguments.program, scratch,
                                   str(arguments.mib), str(arguments.tensors), "1", *(["sync"] if arguments.sync else [])],
                                  check=True, stdout=subprocess.PIPE, text=True).stdout
            for line in map(json.loads, ours.splitlines()):
                found[line["what"]].append(line["seconds"])
                if line["what"] == "save":
                    found["plan_s"].append(line["plan_s"])
                    beside_state = max(beside_state, line["peak_rss_bytes"] - line["state_bytes"])
            script = pathlib.Path(scratch) / "theirs.py"
            script.write_text(THEIRS)
            theirs = subprocess.run([python, "-W", "ignore", script, scratch, str(arguments.mib), str(arguments.tensors),
                                     str(arguments.ranks), str(int(arguments.sync))],
                                    check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            found["torch"].append(float(theirs.split()[-1]))
    median = {name: statistics.median(values) for name, values in found.items()}
    print(json.dumps({"workload": "save", "mib": arguments.mib, "tensors": arguments.tensors, "ranks": arguments.ranks,
                      "sync": arguments.sync, "rounds": arguments.rounds,
                      "all": {name: [round(value, 4) for value in values] for name, values in found.items()},
                      "of_raw": round(median["save"] / median["raw"], 3), "times_torch": round(median["torch"] / median["save"], 2),
                      "plan_s": median["plan_s"],
                      "peak_rss_beside_state_bytes": beside_state}))


if __name__ == "__main__":
    sys.exit(main())
