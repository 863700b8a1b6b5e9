# SPDX-License-Identifier: BSD-3-Clause
"""Time and peak RSS of consolidation against size, for bench/plot.py: cairn on 2 threads, torch, and `cat` of the shards.

    scaling.py --json FILE [--sizes 0.25,0.5,1,2,4] [--ranks 4] [--rounds 3] [--dir FOLDER] [--cairn PROGRAM]

Sizes are GiB. Nothing is synced. FILE is written after each size. docs/benchmarks.md explains the method.
"""
import json
import pathlib
import shutil

import common
from commands import Commands, Sources


def sizes_of(text):
    return sorted({int(float(part) * common.GIB) for part in text.split(",")})


def main():
    parser = common.parser(__doc__)
    parser.set_defaults(rounds=3)
    parser.add_argument("--sizes", type=sizes_of, default="0.25,0.5,1,2,4")
    parser.add_argument("--json", type=pathlib.Path, required=True, metavar="FILE")
    options = parser.parse_args()
    with common.work_folder(options.dir) as folder:
        data = {"workload": "consolidate-scaling", "ranks": options.ranks, "rounds": options.rounds,
                "machine": common.machine(folder, options.cairn), "points": []}
        for size in options.sizes:
            data["points"].append({"bytes": size, **measure(options, folder, size)})
            options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def measure(options, folder, size):
    commands, target = Commands(options), folder / "model.pth"
    source = Sources(options, folder).get("dim0", size)
    contenders = {"torch": commands.torch(source, target), "cairn": commands.consolidate(source, target, "--no-sync"),
                  "cat": commands.cat(source, target)}
    found = common.interleave(contenders, options.rounds, lambda: common.warm(source), target, f"{common.gib(size)}: ")
    shutil.rmtree(source)
    return {who: timings.as_json() for who, timings in found.items()}


if __name__ == "__main__":
    main()
