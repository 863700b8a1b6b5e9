# SPDX-License-Identifier: BSD-3-Clause
"""Whole commands, interleaved in one run: `cairn verify`, `cat` of the shards to /dev/null as the floor, and Python's
zipfile.testzip over every item of the same checkpoint, as .metadata names them; it compares the CRCs only.

    verify_vs_zipfile.py [--gib 2] [--small 0] [--ranks 4] [--rounds 5] [--dir FOLDER] [--cairn PROGRAM] [--python VENV_PYTHON]

The checkpoint is written by torch as consolidate_vs_torch.py does it; --small N adds one of N tensors of 4 KiB instead. It stays warm in the
page cache; a discarded round goes first. Prints a Markdown table and one JSON line.
"""
import argparse
import json
import os
import pathlib
import shlex
import shutil
import statistics
import sys
import tempfile

import consolidate_vs_torch as common

SAVE_SMALL = """
import sys, torch, torch.distributed.checkpoint as dcp
folder, count = sys.argv[1], int(sys.argv[2])
dcp.save({f"layers.{i}.weight": torch.full((1024,), i % 7.0) for i in range(count)}, checkpoint_id=folder, no_dist=True)
"""

TESTZIP = """
import io, pathlib, pickle, sys, zipfile
import torch.distributed.checkpoint
folder = pathlib.Path(sys.argv[1])
with open(folder / ".metadata", "rb") as stream:
    items = pickle.load(stream).storage_data.values()
for item in items:
    with open(folder / item.relative_path, "rb") as stream:
        stream.seek(item.offset)
        with zipfile.ZipFile(io.BytesIO(stream.read(item.length))) as archive:
            assert archive.testzip() is None
"""


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--small", type=int, default=0, help="so many tensors of 4 KiB instead")
    parser.add_argument("--ranks", type=int, default=4, help="ranks that write the checkpoint")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", default=str(common.ROOT / "build" / "tmp"), help="where the checkpoint goes")
    parser.add_argument("--cairn", default=str(common.ROOT / "build" / "release" / "cairn"))
    parser.add_argument("--python", default=str(common.ROOT / "build" / "venv" / "bin" / "python"))
    parser.add_argument("--env", default=str(common.ROOT / "launch" / "env.sh"))
    return parser.parse_args()


def contenders(options, source):
    shards = " ".join(shlex.quote(str(p)) for p in sorted(pathlib.Path(source).glob("*.distcp")))
    verify = [options.cairn, "verify", source]
    return {
        "cat to /dev/null": ["sh", "-c", f"cat {shards} > /dev/null"],
        "cairn verify, 1 thread": [*verify, "--threads", "1"],
        "cairn verify, 2 threads": [*verify, "--threads", "2"],
        "cairn verify, mpirun -n 2": [options.env, "mpirun", "-n", "2", *verify, "--threads", "1"],
        "zipfile.testzip": [options.python, "-c", TESTZIP, source],
    }


def make_source(options, source):
    if not options.small:
        return common.make_source(options, source)
    common.run([options.python, "-W", "ignore", "-c", SAVE_SMALL, source, str(options.small)])
    for shard in pathlib.Path(source).iterdir():
        common.digest(shard)


def measure(options, commands):
    times = {name: [] for name in commands}
    peaks = dict.fromkeys(commands, 0)
    for round_number in range(options.rounds + 1):
        for name, command in commands.items():
            seconds, peak = common.run(command)
            if round_number > 0:
                times[name].append(seconds)
                peaks[name] = max(peaks[name], peak)
        print(f"round {round_number} of {options.rounds}{' (discarded)' if round_number == 0 else ''}", file=sys.stderr, flush=True)
    return times, peaks


def report(options, times, peaks, size):
    medians = {name: statistics.median(values) for name, values in times.items()}
    floor, python = medians["cat to /dev/null"], medians["zipfile.testzip"]
    rows = [{"who": name, "seconds": round(median, 3), "spread": [round(min(times[name]), 3), round(max(times[name]), 3)],
             "gb_per_s": round(size / median / 1e9, 2), "of_cat": round(median / floor, 2), "times_testzip": round(python / median, 2),
             "peak_rss_bytes": peaks[name]} for name, median in medians.items()]
    print("| who | median s | min – max s | GB/s | time of cat × | faster than testzip × | peak RSS MiB |\n|---|---|---|---|---|---|---|")
    for row in rows:
        low, high = row["spread"]
        print(f"| {row['who']} | {row['seconds']:.3f} | {low:.3f} – {high:.3f} | {row['gb_per_s']:.2f} | {row['of_cat']:.2f} | "
              f"{row['times_testzip']:.1f} | {row['peak_rss_bytes'] / (1 << 20):.0f} |")
    kind = common.file_system(pathlib.Path(options.dir).resolve())
    what = f"{options.small} tensors of 4 KiB" if options.small else f"{options.gib:g} GiB from {options.ranks} ranks"
    print(f"\n{what} on {kind}, cached, {os.cpu_count()} cores, {options.rounds} rounds")
    print(json.dumps({"workload": "verify_vs_zipfile", "bytes": size, "small": options.small, "ranks": options.ranks, "rounds": options.rounds,
                      "file_system": kind, "cores": os.cpu_count(), "results": rows}))


def main():
    options = parse()
    if options.rounds < 1:
        sys.exit("--rounds: at least 1")
    pathlib.Path(options.dir).mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=options.dir)).resolve()
    try:
        source = str(folder / "source")
        make_source(options, source)
        times, peaks = measure(options, contenders(options, source))
        report(options, times, peaks, sum(p.stat().st_size for p in pathlib.Path(source).glob("*.distcp")))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
