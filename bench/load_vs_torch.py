#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Loading a checkpoint into memory that is there: Cairn, plain reads of as many bytes by the same ranks, and torch's dcp.load on gloo.

    load_vs_torch.py [--workload NAME …] [--gib 2] [--count 100000] [--rounds 5] [--dir DIR] [--program LOAD_RATE] [--without-torch]

Torch saves by rows on --ranks ranks. Workloads: 4to4, 4to2, 4to8 (rows), columns (on 4), replicated (on 4), small (--count tensors of 4 KiB on
one rank). The jobs of both sides take turns, round by round; each loads once before it is measured. The files are in the page cache.
Prints one JSON line a workload, with medians and ratios; of_raw_crc: to plain reads with the CRC-32 of what was read, which Cairn compares too;
of_rows: of columns, to the same load by rows (4to4), in turns with it.
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
WORKLOADS = {"4to4": ("dim0", "rows", 4), "4to2": ("dim0", "rows", 2), "4to8": ("dim0", "rows", 8), "columns": ("dim0", "columns", 4),
             "replicated": ("dim0", "replicated", 4), "small": ("small", "replicated", 1)}

THEIRS = """
import os, sys, time
os.environ["OMP_NUM_THREADS"] = "1"
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
import torch.multiprocessing as multiprocessing
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

def target(entry, layout, mesh, rank, ranks):
    shape, dtype = entry.size, entry.properties.dtype
    if layout == "replicated" or not shape:
        return torch.zeros(shape, dtype=dtype)
    dim = 1 if layout == "columns" and len(shape) > 1 else 0
    step = -(-shape[dim] // ranks)
    local = list(shape)
    local[dim] = max(0, min(step, shape[dim] - rank * step))
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(torch.zeros(local, dtype=dtype), mesh, [Shard(dim)], run_check=False, shape=shape, stride=stride)

def job(rank, ranks, directory, layout, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    mesh = init_device_mesh("cpu", (ranks,))
    entries = dcp.FileSystemReader(directory).read_metadata().state_dict_metadata
    state = {n: target(e, layout, mesh, rank, ranks) for n, e in entries.items() if isinstance(e, TensorStorageMetadata)}
    for turn in range(2):
        dist.barrier()
        start = time.perf_counter()
        dcp.load(state, storage_reader=dcp.FileSystemReader(directory), planner=dcp.DefaultLoadPlanner(flatten_state_dict=False))
        dist.barrier()
        if rank == 0 and turn == 1:
            print(time.perf_counter() - start, flush=True)
    dist.destroy_process_group()

if __name__ == "__main__":
    directory, layout, ranks, store = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    multiprocessing.spawn(job, (ranks, directory, layout, store), nprocs=ranks)
"""


class Bench:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder

    def source(self, kind):
        path = self.folder / kind
        if not path.exists():
            sizes = [self.arguments.count] if kind == "small" else [self.arguments.ranks, int(self.arguments.gib * common.GIB)]
            common.run([self.arguments.python, "-B", "-W", "ignore", common.HERE / "make_checkpoint.py", kind, path, *sizes])
        return path

    def measure(self, name):
        kind, layout, ranks = WORKLOADS[name]
        source, found, last = self.source(kind), {}, {}
        common.warm(source)
        for _ in range(self.arguments.rounds):
            for line in self.ours(source, layout, ranks):
                found.setdefault(line["what"], []).append(line["seconds"])
                last[line["what"]] = line
            if name == "columns":  # in turns with it, as all that is compared
                found.setdefault("rows", []).extend(line["seconds"] for line in self.ours(source, "rows", ranks) if line["what"] == "load")
            if not self.arguments.without_torch:
                found.setdefault("torch", []).append(self.theirs(source, layout, ranks))
        median = {what: statistics.median(values) for what, values in found.items()}
        result = {"workload": f"load {name}", "saved_by": 1 if kind == "small" else self.arguments.ranks, "ranks": ranks, "layout": layout,
                  "rounds": self.arguments.rounds, "all": {what: [round(v, 4) for v in values] for what, values in found.items()},
                  "of_raw": round(median["load"] / median["raw"], 3), "of_raw_crc": round(median["load"] / median["raw_crc"], 3)}
        if "torch" in median:
            result["times_torch"] = round(median["torch"] / median["load"], 2)
        if name == "columns":
            result["of_rows"] = round(median["load"] / median["rows"], 3)
        told = last["load"]
        result |= {key: told[key] for key in ("plan_s", "read_bytes", "received_bytes", "target_bytes", "peak_rss_bytes")}
        print(json.dumps(result), flush=True)

    def ours(self, source, layout, ranks):
        said = subprocess.run([self.arguments.env, "mpirun", "-n", str(ranks), self.arguments.program, source, layout, "1"], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        return list(map(json.loads, said.splitlines()))

    def theirs(self, source, layout, ranks):
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            script = pathlib.Path(scratch) / "theirs.py"
            script.write_text(THEIRS)
            said = subprocess.run([self.arguments.python, "-W", "ignore", script, source, layout, str(ranks), pathlib.Path(scratch) / "store"],
                                  check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=common.LOOPBACK | os.environ).stdout
        return float(said.split()[-1])


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--count", type=common.positive, default=100_000)
    parser.add_argument("--program", default=TREE / "build" / "release" / "bench" / "load_rate", type=pathlib.Path)
    parser.add_argument("--without-torch", action="store_true", help="compare with plain reads alone")
    arguments = parser.parse_args()
    with common.work_folder(arguments.dir) as folder:
        bench = Bench(arguments, folder)
        for name in WORKLOADS:
            if name in arguments.workload:
                bench.measure(name)


if __name__ == "__main__":
    sys.exit(main())
