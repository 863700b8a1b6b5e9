# SPDX-License-Identifier: BSD-3-Clause
"""The budgets that Cairn is held to, row by row: whole commands interleaved in one run. docs/benchmarks.md explains the method.

    budgets.py [--row NAME]… [--gib 2] [--rounds 5] [--ranks 4] [--dir FOLDER] [--cairn PROGRAM] [--json FILE] [--source CHECKPOINT]
    budgets.py --markdown FILE [--into DOCUMENT]

Prints a table: row, ours, theirs, ratio, budget, met or not; the exit status does not depend on the last. --json keeps what FILE has of other rows.
--markdown prints the table of such a FILE, or puts it between the marks of DOCUMENT. No row of `verified durable resume cold verify startup rss` needs
torch where --source gives a checkpoint.
"""
import json
import pathlib
import re
import subprocess
import sys

import common
from commands import Commands, Sources
from common import GIB, MIB, gib, interleave

SLOW_ROUNDS = 3  # Where the counterpart takes minutes and is steady.
QUICK_ROUNDS = 15  # Where a round takes milliseconds.
START, END = "<!-- budgets.py: begin -->", "<!-- budgets.py: end -->"


class Bench:
    def __init__(self, options, folder):
        self.options, self.commands = options, Commands(options)
        self.sources = Sources(options, folder, options.source)
        self.target, self.folder_target = folder / "model.pth", folder / "result"  # the latter may be a folder
        self.size = int(options.gib * GIB)
        self.row = ""

    def source(self, kind, *sizes):
        return self.sources.get(kind, *sizes)

    def time(self, source, contenders, rounds=None, writes=True, cold=False, target=None):
        def prepare():
            (common.cool if cold else common.warm)(source)
            if cold:  # The source alone is cold: the programs are not.
                common.run([self.commands.cairn, "version"])
                common.run(["sh", "-c", "cat /dev/null"])

        return interleave(contenders, rounds or self.options.rounds, prepare, (target or self.target) if writes else None, f"{self.row}: ")

    def sharded_against(self, *names, kind="dim0", size=None, cold=False):
        """-> Timings of cairn on 2 threads and of the named others, all unsynced unless `durable` is among the names."""
        source, target, durable = self.source(kind, size or self.size), self.target, "cat + sync" in names
        known = {
            "cairn": self.commands.consolidate(source, target, *([] if durable else ["--no-sync"])),
            "cairn, 2 ranks": self.commands.consolidate_ranks(source, target),
            "dcp_to_torch_save": self.commands.torch(source, target),
            "cat": self.commands.cat(source, target),
            "cat + sync": self.commands.cat(source, target, synced=True),
        }
        return self.time(source, {name: known[name] for name in ("cairn", *names)}, cold=cold)


def against(work, timings, ours, theirs, faster=None, within=None):
    """One line. faster: their time is at least so many times ours; within: ours is at most so many times theirs."""
    mine, other = timings[ours], timings[theirs]
    ratio = other.median / mine.median if faster else mine.median / other.median
    same = mine.digest == other.digest if mine.digest and other.digest else None
    return {"work": work, "ours": mine.as_json(), "against": theirs, "theirs": other.as_json(), "ratio": round(ratio, 3),
            "budget": f"≥ {faster:g} × faster" if faster else f"≤ {within:g} × its time",
            "met": ratio >= faster if faster else ratio <= within, "same_bytes": same}


def dim0(bench):
    found = bench.sharded_against("cairn, 2 ranks", "dcp_to_torch_save")
    work = f"{gib(bench.size)}, shards of dimension 0"
    return [against(f"{work}, 2 threads", found, "cairn", "dcp_to_torch_save", faster=12),
            against(f"{work}, mpirun -n 2", found, "cairn, 2 ranks", "dcp_to_torch_save", faster=8)]


def verified(bench):
    return [against(f"{gib(bench.size)}, source verified", bench.sharded_against("cat"), "cairn", "cat", within=0.8)]


def durable(bench):
    return [against(f"{gib(bench.size)}, durable", bench.sharded_against("cat + sync"), "cairn", "cat + sync", within=1.0)]


def resume(bench):
    source, commands, target = bench.source("dim0", bench.size), bench.commands, bench.target
    contenders = {"cairn --resume": commands.consolidate(source, target, "--resume"), "cairn": commands.consolidate(source, target)}
    return [against(f"{gib(bench.size)}, durable, with a journal", bench.time(source, contenders), "cairn --resume", "cairn", within=1.05)]


def large(bench):
    size = 3 * bench.size
    found = bench.sharded_against("cat", "dcp_to_torch_save", size=size)
    return [against(gib(size), found, "cairn", "cat", within=1.0), against(gib(size), found, "cairn", "dcp_to_torch_save", faster=4)]


def cold(bench):
    return [against(f"{gib(bench.size)}, source cold", bench.sharded_against("cat", cold=True), "cairn", "cat", within=1.0)]


def columns(bench):
    found = bench.sharded_against("dcp_to_torch_save", kind="columns")
    return [against(f"{gib(bench.size)}, column shards", found, "cairn", "dcp_to_torch_save", faster=7)]


def small(bench):
    count, target = bench.options.tensors, bench.target
    source = bench.source("small", count)
    contenders = {"cairn": bench.commands.consolidate(source, target, "--no-sync"), "dcp_to_torch_save": bench.commands.torch(source, target)}
    found = bench.time(source, contenders, min(bench.options.rounds, SLOW_ROUNDS))
    return [against(f"{count} tensors of 4 KiB", found, "cairn", "dcp_to_torch_save", faster=100)]


GRIDS = {"tall": "cut by rows", "wide": "cut by columns", "grid": "cut by both", "many": "of 1024 tensors"}


def structure(bench):
    lines, count = [], bench.options.chunks
    for kind, words in GRIDS.items():
        source = bench.source(kind, count)
        contenders = {"ls": bench.commands.ls(source), "verify": bench.commands.verify_structure(source),
                      "pickle.load": bench.commands.load(source)}
        found = bench.time(source, contenders, min(bench.options.rounds, SLOW_ROUNDS), writes=False)
        for name in ("ls", "verify"):
            command = "verify --metadata-only" if name == "verify" else name
            line = against(f"{command}: {count} chunks {words}", found, name, "pickle.load", faster=15)
            alone = float(found["pickle.load"].output.split()[-1])
            lines.append(line | {"note": f"the call alone: {alone:.2f} s, {alone / found[name].median:.1f} ×"})
    return lines


def to_dcp(bench):
    source, target = bench.source("pth", bench.size), bench.folder_target
    contenders = {"cairn": bench.commands.convert(source, target, 4), "torch_save_to_dcp": bench.commands.to_dcp(source, target)}
    found = bench.time(source, contenders, target=target)
    return [against(f"a .pth of {gib(bench.size)} to a DCP directory for 4 ranks", found, "cairn", "torch_save_to_dcp", faster=5)]


def lightning(bench):
    source, target = bench.source("lightning", bench.size), bench.target
    contenders = {"cairn": bench.commands.consolidate(source, target, "--no-sync"), "consolidate_checkpoint": bench.commands.lightnings_own(source, target)}
    found = bench.time(source, contenders)
    work = f"{gib(bench.size)}, a Lightning folder"
    return [against(work, found, "cairn", "consolidate_checkpoint", faster=12), peak_of(work, found["cairn"], (source / ".metadata").stat().st_size)]


def safetensors(bench):
    """To shards of an eighth; and one file to and from a torch file."""
    commands, size, lines = bench.commands, bench.size, []
    source, target = bench.source("dim0", size), bench.folder_target
    contenders = {"cairn": commands.to_safetensors(source, target, size // 8), "dcp.load, save_file": commands.torch_to_safetensors(source, target, size // 8),
                  "cat": commands.cat(source, target)}
    found = bench.time(source, contenders, target=target)
    work = f"{gib(size)} to safetensors shards"
    lines += [against(work, found, "cairn", "dcp.load, save_file", faster=8), against(work, found, "cairn", "cat", within=0.9)]
    lines.append(peak_of(work, found["cairn"], (source / ".metadata").stat().st_size))
    for kind, other in (("pth", ".safetensors"), ("safetensors", ".pth")):
        source, target = bench.source(kind, size), bench.target.with_suffix(other)
        contenders = {"cairn": commands.to_file(source, target), "cat": commands.cat(source, target)}
        found = bench.time(source, contenders, target=target)
        work = f"a .{kind} of {gib(size)} to {other}"
        lines += [against(work, found, "cairn", "cat", within=1.0), peak_of(work, found["cairn"], 0)]
    return lines


def peak_of(work, timings, metadata):
    limit = 104 * MIB + 4 * metadata
    return {"work": work, "ours": {"peak_rss_bytes": timings.peak_rss_bytes}, "ratio": round(timings.peak_rss_bytes / limit, 3),
            "budget": f"≤ {limit / MIB:.0f} MiB", "met": timings.peak_rss_bytes <= limit, "metadata_bytes": metadata}


def reshard(bench):
    source, target = bench.source("dim0", bench.size), bench.folder_target
    contenders = {"reshard": bench.commands.reshard(source, target, 3), "consolidate": bench.commands.consolidate(source, target, "--no-sync")}
    found = bench.time(source, contenders, target=target)
    return [against(f"{gib(bench.size)}, from {bench.options.ranks} ranks to 3", found, "reshard", "consolidate", within=1.2)]


def verify(bench):
    source = bench.source("dim0", bench.size)
    contenders = {"cairn verify": bench.commands.verify(source), "zipfile.testzip": bench.commands.testzip(source),
                  "cat to /dev/null": bench.commands.cat(source, "/dev/null")}
    found = bench.time(source, contenders, writes=False)
    work = f"verify {gib(bench.size)}"
    return [against(work, found, "cairn verify", "cat to /dev/null", within=1.3),
            against(work, found, "cairn verify", "zipfile.testzip", faster=15)]


def gather(bench):
    """By the program's own clock: the start of mpirun is in neither."""
    source, commands, target, ranks = bench.source("dim0", bench.size), bench.commands, bench.target, bench.options.ranks
    contenders = {mode: commands.consolidate_written(source, target, mode, ranks) for mode in ("gather", "shared")}
    found = {mode: timings.by_its_own_clock() for mode, timings in bench.time(source, contenders).items()}
    return [against(f"{gib(bench.size)}, {ranks} ranks, rank 0 writes", found, "gather", "shared", within=1 / 0.55)]


def ema(bench):
    source, commands, folder = bench.source("ema", bench.size), bench.commands, bench.target.parent / "outputs"
    contenders = {"cairn --ema": commands.ema(source, folder), "torch, twice": commands.torch_ema(source, folder)}
    bench.target = folder
    found = bench.time(source, contenders)
    line = against(f"{gib(bench.size)}, model and two EMA files", found, "cairn --ema", "torch, twice", faster=10)
    read, payload = json.loads(found["cairn --ema"].output)["read_bytes"], sum(path.stat().st_size for path in common.files_of(source))
    return [line | {"note": f"read {read} bytes of a source of {payload}: {read / payload:.3f} times"}]


def ranks64(bench):
    size, ranks = bench.size // 10, 64
    source = bench.source("dim0", size)
    seconds, _, said = common.run(bench.commands.consolidate_written(source, bench.target, "auto", ranks).command)
    peak, limit = json.loads(said)["peak_rss_bytes"], 104 * MIB + 4 * (source / ".metadata").stat().st_size
    bench.target.unlink()
    return [{"work": f"{ranks} ranks, oversubscribed: {gib(size)} in {seconds:.1f} s", "ours": {"peak_rss_bytes": peak},
             "ratio": round(peak / limit, 3), "budget": f"≤ {limit / MIB:.0f} MiB", "met": peak <= limit}]


def startup(bench):
    source, limit = bench.source("tiny"), 0.05
    contenders = {"cairn": bench.commands.consolidate(source, bench.target, "--no-sync")}
    ours = bench.time(source, contenders, max(bench.options.rounds, QUICK_ROUNDS))["cairn"]
    return [{"work": "whole command, small checkpoint", "ours": ours.as_json(), "ratio": round(ours.median / limit, 3),
             "budget": f"≤ {limit * 1000:g} ms", "met": ours.median <= limit}]


def rss(bench):
    """Consolidation and verify of several sizes and ranks; and what the formula is about: many small tensors, one large object, many chunks."""
    options, commands, target = bench.options, bench.commands, bench.target
    plain = [("dim0", size, gib(size)) for size in (bench.size // 8, bench.size, 3 * bench.size)]
    special = [("columns", bench.size, f"{gib(bench.size)}, column shards"), ("small", options.tensors, f"{options.tensors} tensors of 4 KiB"),
               ("objects", bench.size // 32, f"an object of {gib(bench.size // 32)}")]
    lines = []
    for kind, size, name in plain[:1] if options.source else plain + special:
        source = bench.source(kind, size)
        jobs = {"consolidate": commands.consolidate(source, target, "--no-sync"), "verify": commands.verify(source)}
        if kind == "dim0" and options.env.is_file():
            jobs["a rank of 2"] = commands.consolidate_ranks(source, target)
        lines += [peak_line(bench, source, f"{job}: {name}", contender) for job, contender in jobs.items()]
    for kind, words in {} if options.source else GRIDS.items():
        source = bench.source(kind, options.chunks)
        jobs = {"ls": commands.ls(source), "verify --metadata-only": commands.verify_structure(source)}
        lines += [peak_line(bench, source, f"{job}: {options.chunks} chunks {words}", contender) for job, contender in jobs.items()]
    return lines


def peak_line(bench, source, work, contender):
    _, peak, _ = common.run(contender.command)
    bench.target.unlink(missing_ok=True)
    metadata, objects = (source / ".metadata").stat().st_size, object_bytes(bench.commands.ls(source))
    limit = 104 * MIB + 4 * metadata + 3 * objects
    return {"work": work, "ours": {"peak_rss_bytes": peak}, "ratio": round(peak / limit, 3), "budget": f"≤ {limit / MIB:.0f} MiB",
            "met": peak <= limit, "metadata_bytes": metadata, "object_bytes": objects}


def object_bytes(ls):
    """Read line by line: memory of this process would count in the peaks of those it starts."""
    with subprocess.Popen(ls.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as listing:
        return sum(int(fields[3]) for fields in (line.split("\t") for line in listing.stdout) if fields[1] == "object")


ROWS = {"dim0": dim0, "verified": verified, "durable": durable, "resume": resume, "6gib": large, "cold": cold, "columns": columns, "small": small,
        "to_dcp": to_dcp, "reshard": reshard, "lightning": lightning, "safetensors": safetensors,
        "structure": structure, "verify": verify, "gather": gather, "ema": ema, "ranks64": ranks64, "startup": startup, "rss": rss}


def table(lines):
    """Markdown, padded so that it reads as text as well: times, then peaks, then notes."""
    timed, peaks = [line for line in lines if "seconds" in line["ours"]], [line for line in lines if "seconds" not in line["ours"]]
    parts = []
    if timed:
        rows = [(line["row"], line["work"], amount(line["ours"]), f"{line['against']}: {amount(line['theirs'])}" if "against" in line else "–",
                 f"{line['ratio']:.2f}", line["budget"], met(line)) for line in timed]
        parts.append(padded([("row", "work", "ours", "theirs", "ratio", "budget", "met"), *rows]))
    if peaks:
        rows = [(line["row"], line["work"], amount(line["ours"]), f"{line['ratio']:.2f}", line["budget"], met(line)) for line in peaks]
        parts.append(padded([("row", "work", "peak RSS", "ratio", "budget", "met"), *rows]))
    notes = [f"- {line['row']}, {line['work']}: {line['note']}" for line in lines if "note" in line]
    return "\n\n".join(parts + ["\n".join(notes)] * bool(notes))


def padded(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    text = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    return "\n".join([text[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *text[1:]])


def met(line):
    return "yes" if line["met"] else "**no**"


def amount(timings):
    if "seconds" not in timings:
        return f"{timings['peak_rss_bytes'] / MIB:.0f} MiB"
    low, high = min(timings["all_seconds"]), max(timings["all_seconds"])
    if timings["seconds"] < 0.1:
        return f"{timings['seconds'] * 1000:.0f} ms ({low * 1000:.0f}–{high * 1000:.0f})"
    return f"{timings['seconds']:.2f} s ({low:.2f}–{high:.2f})"


def markdown(data):
    lines = [line for name in ROWS for line in data.get("rows", {}).get(name, {}).get("lines", [])]
    if not lines:
        return "Not measured yet."
    about = sorted({described(row) for row in data["rows"].values()})
    return "\n".join([table(lines), "", *(f"Measured on {text}." for text in about)])


def described(row):
    where = row["machine"]
    return (f"{where['system']} {where['kernel']}, {where['cores']} cores, {where['memory_gib']} GiB of memory, {where['file_system']}, "
            f"{where['cairn']}, {row['rounds']} rounds")


def put_into(document, text):
    old = document.read_text(encoding="utf-8")
    new, count = re.subn(f"(?s){START}.*?{END}", lambda _: f"{START}\n{text}\n{END}", old)
    if count != 1:
        sys.exit(f"{document}: {START} and {END} have to be there once")
    document.write_text(new, encoding="utf-8")


def read(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"workload": "budgets", "rows": {}}


def parse():
    parser = common.parser(__doc__)
    parser.add_argument("--row", action="append", choices=ROWS, help="may be repeated; all without it")
    parser.add_argument("--gib", type=float, default=2, help="size of the sharded checkpoints; that of the row 6gib is three times as much")
    parser.add_argument("--tensors", type=common.positive, default=100_000, help="those of the row small")
    parser.add_argument("--chunks", type=common.positive, default=1 << 20, help="those of the row structure")
    parser.add_argument("--source", type=pathlib.Path, help="a checkpoint that is taken instead of every one that would be made")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="measure nothing")
    parser.add_argument("--into", type=pathlib.Path, metavar="DOCUMENT")
    return parser.parse_args()


def measure(options):
    data = read(options.json) if options.json else {"rows": {}}
    lines = []
    with common.work_folder(options.dir) as folder:
        bench = Bench(options, folder)
        for name in ROWS:
            if options.row and name not in options.row:
                continue
            bench.row = name
            found = [{"row": name} | line for line in ROWS[name](bench)]
            lines += found
            data["rows"][name] = {"rounds": options.rounds, "gib": options.gib, "ranks": options.ranks,
                                  "machine": common.machine(folder, options.cairn), "lines": found}
            if options.json:
                options.json.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table(lines))


def main():
    options = parse()
    if not options.markdown:
        return measure(options)
    text = markdown(read(options.markdown))
    put_into(options.into, text) if options.into else print(text)


if __name__ == "__main__":
    main()
