# SPDX-License-Identifier: BSD-3-Clause
"""--flat, --objects and --align against torch, over the golden directories.

    run_shapes.py --cairn PROGRAM --golden DIR [--only NAME …]

What is expected is made by torch: its loader over the metadata without nesting gives the flat state; its set_element rebuilds the
nesting of the names that are to be in a file.
"""
import argparse
import dataclasses
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TORCH_SERIALIZATION_DEBUG"] = "1"  # torch.load compares the offsets it computes with those in the archive
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import torch  # noqa: E402
from torch.distributed.checkpoint import FileSystemReader  # noqa: E402
from torch.distributed.checkpoint._nested_dict import set_element  # noqa: E402
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner  # noqa: E402
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save  # noqa: E402
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict  # noqa: E402
from torch.utils.serialization import config  # noqa: E402

from compare import Comparison, check_archive, compare_files, same_bytes  # noqa: E402

ALIGNED = ("no_dist", "two_threads", "objects_with_tensors", "dtypes_sharded")
ALIGNMENTS = (64, 4096, 32768)


class FlatReader(FileSystemReader):
    def read_metadata(self, *arguments, **named):
        return dataclasses.replace(super().read_metadata(*arguments, **named), planner_data=None)


def flat_state(folder):
    state = {}
    _load_state_dict(state, FlatReader(folder), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return state


def nested(flat, paths, names):
    state = {}
    for name in names:
        if name in paths:
            set_element(state, paths[name], flat[name])
        else:
            state[name] = flat[name]
    return state


def loads_safely(value):
    stream = io.BytesIO()
    torch.save(value, stream)
    stream.seek(0)
    try:
        torch.load(stream, weights_only=True)
    except Exception:  # Whatever it raises: it does not load.
        return False
    return True


class Suite:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch
        self.failures = self.flat_identical = 0

    def check(self, condition, text):
        if not condition:
            self.failures += 1
            print(f"  FAILED {text}", flush=True)
        return bool(condition)

    def consolidate(self, folder, label, *arguments):
        """-> (the output's path, its JSON report), or None."""
        target = self.scratch / folder.name / label / "model.pth"
        command = [self.options.cairn, "consolidate", "--no-sync", "--json", *arguments, folder, target]
        result = subprocess.run([str(c) for c in command], capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
        good = self.check(result.returncode == 0, f"{' '.join(map(str, command))}: {result.stderr.decode()[:1500]}")
        return (target, json.loads(result.stdout)) if good else None

    def equal(self, ours, expected, where, safe=True):
        """The file opens as it should, also by mmap, and holds what is expected."""
        comparison = Comparison()
        check_archive(ours, comparison.faults)
        for mmap in (False, True):
            comparison.same(torch.load(ours, weights_only=safe, mmap=mmap), expected, where)
        for fault in comparison.faults:
            self.check(False, fault)

    def run_flat(self, case, folder, flat):
        made = self.consolidate(folder, "flat", "--flat")
        if made is None:
            return
        reference = self.scratch / folder.name / "flat.ref" / "model.pth"
        reference.parent.mkdir()
        torch.save(flat, reference)
        faults, identical = compare_files(made[0], reference, case["safe"])
        for fault in faults:
            self.check(False, f"--flat: {fault}")
        self.flat_identical += identical
        self.check(list(torch.load(made[0], weights_only=case["safe"])) == list(FileSystemReader(folder).read_metadata().state_dict_metadata),
                   "--flat: keys are the metadata's names")

    def run_objects(self, folder, flat, paths):
        tensors = [name for name, value in flat.items() if isinstance(value, torch.Tensor)]
        objects = [name for name in flat if name not in tensors]
        unsafe = [name for name in objects if not loads_safely(flat[name])]
        dropped = self.consolidate(folder, "drop", "--objects", "drop")
        if dropped:
            target, report = dropped
            self.equal(target, nested(flat, paths, tensors), "drop")
            self.check(len(report["skipped"]) == len(objects) and report["outputs"][0]["objects"] == 0, f"drop: {report}")
            self.check([p.name for p in target.parent.iterdir()] == ["model.pth"], "drop: one output")
        split = self.consolidate(folder, "safe", "--objects", "safe")
        if split:
            target, report = split
            self.equal(target, nested(flat, paths, [name for name in flat if name not in unsafe]), "safe")
            other = target.with_name("model.pth.objects.pth")
            self.check(other.exists() == bool(unsafe), f"safe: {other} is there for {unsafe}")
            want = [(str(target), len(tensors), len(objects) - len(unsafe))] + ([(str(other), 0, len(unsafe))] if unsafe else [])
            have = [(o["path"], o["tensors"], o["objects"]) for o in report["outputs"]]
            self.check(have == want, f"safe: outputs {have}, expected {want}")
            if other.exists():
                self.equal(other, nested(flat, paths, unsafe), "objects", safe=False)

    def run_alignments(self, case, folder):
        for alignment in ALIGNMENTS:
            made = self.consolidate(folder, f"align{alignment}", "--align", alignment)
            if made is None:
                continue
            reference = self.scratch / folder.name / f"align{alignment}.ref" / "model.pth"
            reference.parent.mkdir()
            with config.patch({"save.storage_alignment": alignment}):
                dcp_to_torch_save(str(folder), str(reference))
            self.check(same_bytes(made[0], reference), f"--align {alignment}: torch's bytes")
            with config.patch({"load.calculate_storage_offsets": True}):
                self.equal(made[0], torch.load(reference, weights_only=case["safe"]), f"align {alignment}", case["safe"])
            with zipfile.ZipFile(made[0]) as archive:
                self.check(archive.read("model/.storage_alignment") == str(alignment).encode(), f"--align {alignment} is recorded")
                for entry in archive.infolist():
                    archive.fp.seek(entry.header_offset + 26)
                    start = entry.header_offset + 30 + sum(int.from_bytes(archive.fp.read(2), "little") for _ in range(2))
                    self.check(start % alignment == 0, f"--align {alignment}: {entry.filename} is at {start}")

    def run_case(self, case):
        folder = self.options.golden / case["name"]
        flat = flat_state(folder)
        self.run_flat(case, folder, flat)
        self.run_objects(folder, flat, FileSystemReader(folder).read_metadata().planner_data or {})
        if case["name"] in ALIGNED:
            self.run_alignments(case, folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cairn", required=True)
    parser.add_argument("--golden", required=True, type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cases = [c for c in json.loads((options.golden / "manifest.json").read_text())
             if not c["expected"] and (not options.only or c["name"] in options.only)]  # torch's own loader must be able to read it
    with tempfile.TemporaryDirectory(prefix="cairn-shapes-") as scratch:
        suite = Suite(options, pathlib.Path(scratch))
        for case in cases:
            before = suite.failures
            suite.run_case(case)
            print(f"{'ok' if suite.failures == before else 'FAILED':6} {case['name']}", flush=True)
    print(f"{suite.flat_identical} of {len(cases)} flat files byte-identical with torch.save; {suite.failures} failures")
    return 1 if suite.failures else 0


if __name__ == "__main__":
    sys.exit(main())
