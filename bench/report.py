# SPDX-License-Identifier: BSD-3-Clause
"""The table and the JSON line of a comparison: who, seconds, rate, ratios, peak RSS."""
import json

import common
from common import MIB


def compare(workload, found, size, ratios, options, **about):
    """found: {who: Timings}. ratios: {column: (who, f(their median, this median))}."""
    rows = [row(who, timings, size or timings.size, {c: round(f(found[base].median, timings.median), 2) for c, (base, f) in ratios.items()})
            for who, timings in found.items()]
    print("| who | median s | min – max s | GB/s | " + "".join(f"{column} | " for column in ratios) + "peak RSS MiB |")
    print("|---" * (5 + len(ratios)) + "|")
    for entry in rows:
        low, high = min(entry["all_seconds"]), max(entry["all_seconds"])
        print(f"| {entry['who']} | {entry['seconds']:.3f} | {low:.3f} – {high:.3f} | {entry['gb_per_s']:.2f} | "
              + "".join(f"{ratio:.2f} | " for ratio in entry["ratios"].values()) + f"{entry['peak_rss_bytes'] / MIB:.0f} |")
    machine = common.machine(options.dir.resolve(), options.cairn)
    print(f"\nsource cached, {machine['cores']} cores, {machine['file_system']}, {options.rounds} rounds")
    print(json.dumps({"workload": workload, **about, "ranks": options.ranks, "rounds": options.rounds, "machine": machine, "results": rows}))


def row(who, timings, size, ratios):
    return {"who": who, **timings.as_json(), "gb_per_s": round(size / timings.median / 1e9, 2), "ratios": ratios}
