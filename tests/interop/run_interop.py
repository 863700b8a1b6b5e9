# SPDX-License-Identifier: BSD-3-Clause
"""Consolidates every golden directory with `cairn` and compares with what torch makes of it.

    run_interop.py --cairn PROGRAM --golden DIR [--env launch/env.sh] [--only NAME …] [--identical]

Each directory: ls and verify agree with torch's reading of the metadata; 1 and 3 threads and one rank count give the same bytes;
those are strictly equal to torch's own consolidation. `windows` runs on every rank count.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import torch  # noqa: E402
from torch.distributed.checkpoint import FileSystemReader  # noqa: E402
from torch.distributed.checkpoint.metadata import TensorStorageMetadata  # noqa: E402

from compare import compare_files, same_bytes  # noqa: E402

ROTATION = (2, 4, 3, 8, 1)
ALL_RANK_COUNTS = ("windows", "dtypes_sharded")
TIMEOUT_S = 120
# Data buffers of 64 MiB and 40 MiB of program, metadata of these cases counted in.
RSS_LIMIT = (64 + 40 + 8) << 20


class Suite:
    def __init__(self, options, scratch):
        self.options = options
        self.scratch = scratch
        self.failures = 0
        self.identical = []
        self.different = []

    def check(self, condition, text):
        if not condition:
            self.failures += 1
            print(f"  FAILED {text}", flush=True)
        return bool(condition)

    def cairn(self, *arguments, ranks=0):
        command = [self.options.cairn, *map(str, arguments)]
        if ranks:
            command = [self.options.env, "mpirun", "-n", str(ranks), *command]
        try:
            return subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired as late:
            return subprocess.CompletedProcess(command, 124, b"", f"stopped after {late.timeout} s".encode())

    def succeeds(self, result, quiet=True):
        shown = " ".join(map(str, result.args))
        good = self.check(result.returncode == 0, f"{shown}: status {result.returncode}\n    {text(result.stderr)[:1500]}")
        return good and (not quiet or self.check(result.stderr == b"", f"{shown}: stderr {text(result.stderr)[:500]!r}"))

    def run_case(self, case, ranks):
        folder = self.options.golden / case["name"]
        self.check_listing(folder)
        result = self.cairn("verify", "--metadata-only", folder)
        if self.succeeds(result):
            self.check(result.stdout.count(b"\n") == 1, f"verify prints one line, not {text(result.stdout)!r}")
        # Without CRCs nothing is compared, which is said.
        self.succeeds(self.cairn("verify", folder), quiet=case["name"] != "crc_off")
        self.check_consolidation(case, folder, ranks)

    def check_listing(self, folder):
        result = self.cairn("ls", "--json", "--shards", folder)
        if not self.succeeds(result):
            return
        listed = json.loads(result.stdout)
        metadata = FileSystemReader(folder).read_metadata()
        tensors = {k: v for k, v in metadata.state_dict_metadata.items() if isinstance(v, TensorStorageMetadata)}
        objects = [k for k in metadata.state_dict_metadata if k not in tensors]
        self.check(listed["format"] == "dcp" and listed["path"] == str(folder), f"ls: {listed['format']} {listed['path']}")
        self.check([t["name"] for t in listed["tensors"]] == list(tensors), "ls names the tensors in metadata order")
        self.check([o["name"] for o in listed["objects"]] == objects, "ls names the objects in metadata order")
        places = {(index.fqn, index.offset and tuple(index.offset)): info for index, info in metadata.storage_data.items()}
        for entry in listed["tensors"]:
            if entry["name"] in tensors:
                self.check_entry(entry, tensors[entry["name"]], places)
        for entry in listed["objects"]:
            length = places[entry["name"], None].length
            self.check(entry["bytes"] == length, f"ls bytes of object {entry}, expected {length}")
        totals = {"tensors": len(tensors), "objects": len(objects), "bytes": sum(t["bytes"] for t in listed["tensors"]),
                  "files": len({info.relative_path for info in metadata.storage_data.values()})}
        self.check(listed["totals"] == totals, f"ls totals {listed['totals']}, expected {totals}")

    def check_entry(self, entry, expected, places):
        size = expected.properties.dtype.itemsize * expected.size.numel()
        want = (str(expected.properties.dtype).removeprefix("torch."), list(expected.size), size, len(expected.chunks))
        have = (entry["dtype"], entry["shape"], entry["bytes"], entry["chunk_count"])
        self.check(have == want, f"ls {entry['name']!r}: {have}, expected {want}")
        boxes = [(c["offsets"], c["sizes"]) for c in entry["chunks"]]
        self.check(boxes == [(list(c.offsets), list(c.sizes)) for c in expected.chunks], f"ls chunks of {entry['name']!r}: {boxes}")
        for chunk in entry["chunks"]:
            info = places.get((entry["name"], tuple(chunk["offsets"])))
            if info:
                want = (info.relative_path, info.offset, info.length)
                have = (chunk["file"], chunk["byte_offset"], chunk["byte_length"])
                self.check(have == want, f"ls place of {entry['name']!r}: {have}, expected {want}")

    def check_consolidation(self, case, folder, ranks):
        name = case["name"]
        first = self.consolidate(case, folder, "threads1", "--threads", 1)
        if first is None:
            return
        outputs = [self.consolidate(case, folder, "threads3", "--threads", 3)]
        outputs += [self.consolidate(case, folder, f"np{n}", "--threads", 1 + n % 2, ranks=n) for n in ranks]
        if name in ALL_RANK_COUNTS:
            outputs.append(self.consolidate(case, folder, "small", "--max-memory", "4MiB"))
        for other in outputs:
            if other is not None:
                self.check(same_bytes(first, other), f"{other.parent.name} gives the bytes of one thread")
        faults, identical = compare_files(first, self.options.golden / f"{name}.ref" / "model.pth", case["safe"])
        for fault in faults:
            self.check(False, fault)
        (self.identical if identical else self.different).append(name)
        if self.options.identical:
            self.check(identical, "byte-identical with torch's file")

    def consolidate(self, case, folder, label, *arguments, ranks=0):
        """-> the output's path, or None when the command failed."""
        target = self.scratch / case["name"] / label / "model.pth"  # cairn makes the folder.
        result = self.cairn("consolidate", folder, target, "--no-sync", "--json", *arguments, ranks=ranks)
        if not self.succeeds(result, quiet=case["safe"]):
            return None
        if not case["safe"]:
            self.check(result.stderr != b"", "an object outside the safe list is named on stderr")
        self.check_report(case, folder, target, json.loads(result.stdout), ranks)
        return target if self.check(target.exists(), f"{target} exists") else None

    def check_report(self, case, folder, target, report, ranks):
        metadata = FileSystemReader(folder).read_metadata()
        tensors = sum(isinstance(v, TensorStorageMetadata) for v in metadata.state_dict_metadata.values())
        want = [{"path": str(target), "bytes": target.stat().st_size, "tensors": tensors,
                 "objects": len(metadata.state_dict_metadata) - tensors}]
        self.check(report["outputs"] == want, f"report {report['outputs']}, expected {want}")
        self.check(report["skipped"] == [], f"skipped {report['skipped']}")
        self.check(bool(report["warnings"]) == (not case["safe"]), f"warnings {report['warnings']}")
        self.check(report["ranks"] == max(1, ranks), f"{report['ranks']} ranks")
        if case["name"] == "windows":
            self.check(report["peak_rss_bytes"] <= RSS_LIMIT, f"peak RSS {report['peak_rss_bytes']}")
        left = [p.name for p in target.parent.iterdir()]
        self.check(left == [target.name], f"only the output is left: {left}")


def text(data):
    return data.decode("utf-8", "replace")


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cairn", required=True)
    parser.add_argument("--golden", required=True, type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--env", default=str(HERE.parents[1] / "launch" / "env.sh"))
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--no-mpi", action="store_true", help="leave the runs under mpirun out")
    parser.add_argument("--identical", action="store_true")
    parser.add_argument("--keep", help="keep outputs in this folder")
    return parser.parse_args()


def main():
    options = parse()
    torch.set_num_threads(1)
    cases = json.loads((options.golden / "manifest.json").read_text())
    scratch = pathlib.Path(options.keep or tempfile.mkdtemp(prefix="cairn-interop-"))
    suite = Suite(options, scratch)
    try:
        for i, case in enumerate(cases):
            if options.only and case["name"] not in options.only:
                continue
            started = time.monotonic()
            before = suite.failures
            ranks = ROTATION if case["name"] in ALL_RANK_COUNTS else (ROTATION[i % len(ROTATION)],)
            suite.run_case(case, () if options.no_mpi else ranks)
            verdict = "ok" if suite.failures == before else "FAILED"
            print(f"{verdict:6} {case['name']} ({time.monotonic() - started:.1f} s)", flush=True)
            if not options.keep:
                shutil.rmtree(scratch / case["name"], ignore_errors=True)
    finally:
        if not options.keep:
            shutil.rmtree(scratch, ignore_errors=True)
    print(f"{len(suite.identical)} byte-identical with torch's file; equal in content only: {' '.join(suite.different) or 'none'}")
    print(f"{suite.failures} failures")
    return 1 if suite.failures else 0


if __name__ == "__main__":
    sys.exit(main())
