# SPDX-License-Identifier: BSD-3-Clause
"""Whole commands, interleaved in one run: torch's consolidation, cairn's, and `cat` of the shards as the floor.

    consolidate_vs_torch.py [--gib 2] [--ranks 4] [--rounds 5] [--dir FOLDER] [--cairn PROGRAM] [--python VENV_PYTHON]

The checkpoint (bfloat16 and float32, as FSDP shards it) is written by torch on RANKS gloo ranks and stays warm in the page cache. Each
contender starts with its output absent and nothing left to write back; a discarded round of the same size goes first and checks
that the outputs agree. Nothing is fsynced by any of them. Prints a Markdown table and one JSON line.

Peak RSS is the largest of the command's processes, from wait4; a process counts no less than what this program holds (about 20 MiB).
"""
import argparse
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent

SAVE = """
import os, sys, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp, torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

def worker(rank, world, folder, total):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}.store", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    state, layer, columns = {}, 0, 4096
    while total > 0:
        for name, dtype, rows in (("weight", torch.bfloat16, 8192), ("moment", torch.float32, 2048), ("norm", torch.float32, 1)):
            rows = max(1, min(rows, total // (columns * dtype.itemsize)))
            local = (rows + world - 1) // world
            local = max(0, min(local, rows - rank * local))
            part = torch.randn(local, columns).to(dtype)
            state[f"layers.{layer}.{name}"] = DTensor.from_local(part, mesh, [Shard(0)], run_check=False, shape=(rows, columns),
                                                                 stride=(columns, 1))
            total -= rows * columns * dtype.itemsize
        layer += 1
    dcp.save({"model": state, "step": 1}, checkpoint_id=folder)
    dist.destroy_process_group()

if __name__ == "__main__":
    folder, world, total = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    mp.start_processes(worker, (world, folder, total), nprocs=world, start_method="fork")
    if os.path.exists(folder + ".store"):
        os.unlink(folder + ".store")
"""

TORCH = """
import sys
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
dcp_to_torch_save(sys.argv[1], sys.argv[2])
"""


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--ranks", type=int, default=4, help="ranks that write the checkpoint")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", default=str(ROOT / "build" / "tmp"), help="where source and outputs go")
    parser.add_argument("--cairn", default=str(ROOT / "build" / "release" / "cairn"))
    parser.add_argument("--python", default=str(ROOT / "build" / "venv" / "bin" / "python"))
    parser.add_argument("--env", default=str(ROOT / "launch" / "env.sh"))
    parser.add_argument("--without-torch", action="store_true", help="compare with cat alone")
    return parser.parse_args()


def run(command):
    """-> (seconds, peak RSS in bytes). posix_spawn: the child never holds a copy of this process."""
    output = tempfile.TemporaryFile()
    actions = [(os.POSIX_SPAWN_DUP2, output.fileno(), 1), (os.POSIX_SPAWN_DUP2, output.fileno(), 2)]
    started = time.monotonic()
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.monotonic() - started
    if status != 0:
        output.seek(0)
        sys.exit(f"{shlex.join(command)}\nfailed with {os.waitstatus_to_exitcode(status)}:\n{output.read().decode(errors='replace')[-3000:]}")
    return seconds, usage.ru_maxrss * 1024


def contenders(options, source, target):
    cairn = [options.cairn, "consolidate", source, target, "--no-sync"]
    shards = " ".join(shlex.quote(str(p)) for p in sorted(pathlib.Path(source).glob("*.distcp")))
    found = {
        "cairn, 2 threads": [*cairn, "--threads", "2"],
        "cairn, mpirun -n 2": [options.env, "mpirun", "-n", "2", *cairn, "--threads", "1"],
        "cat of the shards": ["sh", "-c", f"cat {shards} > {shlex.quote(target)}"],
    }
    if not options.without_torch:
        found = {"dcp_to_torch_save": [options.python, "-W", "ignore", "-c", TORCH, source, target]} | found
    return found


def digest(path):
    total = hashlib.sha256()
    with open(path, "rb") as stream:
        while piece := stream.read(1 << 20):
            total.update(piece)
    return total.hexdigest()


def file_system(path):
    best = ("", "unknown")
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        inside = str(path) == where or str(path).startswith(where.rstrip("/") + "/")
        if inside and len(where) >= len(best[0]):
            best = (where, kind)
    return best[1]


def make_source(options, source):
    """In the cache and on the disk afterwards."""
    environment = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    os.environ.update({k: os.environ.get(k, v) for k, v in environment.items()})
    run([options.python, "-W", "ignore", "-c", SAVE, source, str(options.ranks), str(int(options.gib * (1 << 30)))])
    for shard in pathlib.Path(source).iterdir():
        digest(shard)


def measure(options, source, target, sizes):
    commands = contenders(options, source, target)
    times = {name: [] for name in commands}
    peaks = {name: 0 for name in commands}
    digests = {}
    for round_number in range(options.rounds + 1):
        for name, command in commands.items():
            os.sync()
            seconds, peak = run(command)
            if round_number == 0:
                digests[name] = digest(target)
                sizes[name] = os.path.getsize(target)
            else:
                times[name].append(seconds)
                peaks[name] = max(peaks[name], peak)
            os.unlink(target)
        print(f"round {round_number} of {options.rounds}{' (discarded)' if round_number == 0 else ''}", file=sys.stderr, flush=True)
    return times, peaks, digests


def report(options, times, peaks, digests, sizes):
    medians = {name: statistics.median(values) for name, values in times.items()}
    base = medians.get("dcp_to_torch_save")
    rows = []
    for name, median in medians.items():
        rows.append({"who": name, "seconds": round(median, 3), "spread": [round(min(times[name]), 3), round(max(times[name]), 3)],
                     "gb_per_s": round(sizes[name] / median / 1e9, 2), "times_torch": round(base / median, 2) if base else None,
                     "peak_rss_bytes": peaks[name]})
    print("| who | median s | min – max s | GB/s | × torch | peak RSS MiB |\n|---|---|---|---|---|---|")
    for row in rows:
        low, high = row["spread"]
        faster = row["times_torch"] if base else "–"
        print(f"| {row['who']} | {row['seconds']:.2f} | {low:.2f} – {high:.2f} | {row['gb_per_s']:.2f} | {faster} | "
              f"{row['peak_rss_bytes'] / (1 << 20):.0f} |")
    kind = file_system(pathlib.Path(options.dir).resolve())
    print(f"\n{options.gib:g} GiB from {options.ranks} ranks on {kind}, source cached, {os.cpu_count()} cores, {options.rounds} rounds")
    print(json.dumps({"workload": "consolidate_vs_torch", "gib": options.gib, "ranks": options.ranks, "rounds": options.rounds,
                      "file_system": kind, "cores": os.cpu_count(), "results": rows,
                      "same_as_torch": digests["cairn, 2 threads"] == digests.get("dcp_to_torch_save")}))


def check(digests):
    if digests["cairn, 2 threads"] != digests["cairn, mpirun -n 2"]:
        sys.exit("threads and ranks gave different bytes")


def main():
    options = parse()
    if options.rounds < 1:
        sys.exit("--rounds: at least 1")
    pathlib.Path(options.dir).mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=options.dir)).resolve()
    try:
        source, target, sizes = str(folder / "source"), str(folder / "model.pth"), {}
        make_source(options, source)
        times, peaks, digests = measure(options, source, target, sizes)
        check(digests)
        report(options, times, peaks, digests, sizes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
