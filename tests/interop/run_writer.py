# SPDX-License-Identifier: BSD-3-Clause
"""Every golden directory written anew by Cairn's writer of items and metadata (rewrite_dcp), judged by torch.

    run_writer.py --program REWRITE_DCP --golden DIR [--only NAME …]

The shards are torch's own, byte for byte, but for those that were saved in another way than by default. `.metadata` unpickles to
what torch's does, field by field, types and orders included; from one process without a group its bytes are torch's. torch loads and
converts the directory to what it makes of its own.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save  # noqa: E402
from torch.distributed.checkpoint.metadata import TensorStorageMetadata  # noqa: E402

from compare import Comparison, compare_files, same_bytes  # noqa: E402
from golden_cases import CASES  # noqa: E402

# Why a case's shards differ from torch's.
OTHER_SHARDS = {
    "crc_off": "saved without CRCs",
    "align_4096": "another alignment",
    "views": "stored with strides of their own",
}
# Why the bytes of .metadata from one process without a group differ from torch's.
OTHER_METADATA = {
    "parameters": "requires_grad is not kept",
    "nesting": "the same key of one character was made twice",  # which our reader takes for one object, as CPython's would
    "plain_objects": "the same key of one character was made twice",
}
MANIFEST = ("cairn_manifest", "sha256 …")


def differences(ours, theirs, where=""):
    """Yields what differs; types, orders and the attributes that an instance has count."""
    if type(ours) is not type(theirs):
        yield f"{where}: {type(ours).__name__}, expected {type(theirs).__name__}"
    elif dataclasses.is_dataclass(theirs):
        yield from differences(vars(ours), vars(theirs), f"{where}<{type(theirs).__name__}>")
    elif isinstance(theirs, dict):
        yield from differences(list(ours), list(theirs), f"{where}.keys")
        for (key, a), b in zip(ours.items(), theirs.values()):
            yield from differences(a, b, f"{where}[{key!r}]")
    elif isinstance(theirs, (list, tuple)):
        if len(ours) != len(theirs):
            yield f"{where}: {len(ours)} elements, expected {len(theirs)}"
        for i, (a, b) in enumerate(zip(ours, theirs)):
            yield from differences(a, b, f"{where}[{i}]")
    elif ours != theirs:
        yield f"{where}: {ours!r}, expected {theirs!r}"


def read_metadata(folder):
    with open(folder / ".metadata", "rb") as file:
        return pickle.load(file)


def forget_gradients(metadata):
    """requires_grad of a saved parameter is in torch's metadata, is not read by anyone, and is False in ours."""
    for entry in metadata.state_dict_metadata.values():
        if isinstance(entry, TensorStorageMetadata):
            entry.properties.requires_grad = False


def load_flat(folder, metadata):
    """dcp.load into plain tensors, by flat name; objects come as they are."""
    state = {name: torch.empty(entry.size, dtype=entry.properties.dtype) if isinstance(entry, TensorStorageMetadata) else None
             for name, entry in metadata.state_dict_metadata.items()}
    dcp.load(state, checkpoint_id=folder, no_dist=True, planner=dcp.DefaultLoadPlanner(flatten_state_dict=False))
    return state


class Suite:
    def __init__(self, options, scratch):
        self.options = options
        self.scratch = scratch
        self.failures = 0
        self.identical = 0

    def check(self, condition, text):
        if not condition:
            self.failures += 1
            print(f"  FAILED {text}", flush=True)
        return bool(condition)

    def rewrite(self, folder, metadata, *attribute):
        target = self.scratch / folder.name
        target.mkdir()
        places = {name: i for i, name in enumerate(metadata.state_dict_metadata)}
        order = " ".join(str(places[name]) for name in metadata.planner_data or ())
        meta = metadata.storage_meta
        result = subprocess.run([self.options.program, folder, target, str(meta.checkpoint_id), meta.save_id, *attribute],
                                input=order.encode(), capture_output=True, timeout=300)
        shown = result.stderr.decode(errors="replace")
        return target if self.check(result.returncode == 0, f"{folder.name}: status {result.returncode}: {shown}") else None

    def run_case(self, case):
        folder = self.options.golden / case["name"]
        theirs = read_metadata(folder)
        ours = self.rewrite(folder, theirs)
        if ours is None:
            return
        self.check_shards(case, ours, folder)
        self.check_metadata(case, ours, folder, theirs)
        self.check_loaded(ours, folder, theirs)
        if not case["expected"]:  # torch's converter manages
            target = self.scratch / "converted" / "model.pth"
            target.parent.mkdir(exist_ok=True)
            dcp_to_torch_save(str(ours), str(target))
            for fault in compare_files(target, self.options.golden / f"{case['name']}.ref" / "model.pth", case["safe"])[0]:
                self.check(False, f"dcp_to_torch_save: {fault}")

    def check_shards(self, case, ours, folder):
        names = sorted(p.name for p in folder.glob("*.distcp"))
        self.check(sorted(p.name for p in ours.glob("*.distcp")) == names, f"files {names}")
        different = [name for name in names if not same_bytes(ours / name, folder / name)]
        if case["name"] in OTHER_SHARDS:
            return self.check(different, f"{case['name']}: {OTHER_SHARDS[case['name']]}, and yet the same bytes")
        self.check(not different, f"{case['name']}: {different} differ from torch's")

    def check_metadata(self, case, ours, folder, theirs):
        mine = read_metadata(ours)
        forget_gradients(theirs)
        if case["name"] in OTHER_SHARDS:  # other offsets
            for metadata in (mine, theirs):
                for info in metadata.storage_data.values():
                    info.offset = info.length = 0
        for fault in differences(mine, theirs, "metadata"):
            self.check(False, f"{case['name']}: {fault}")

    def check_bytes(self, case):
        """Without a process group plans are not pickled on their way: the strings of the state are those of the metadata."""
        folder = self.scratch / f"{case.name}.alone"
        dcp.save(case.build(0, 1), storage_writer=dcp.FileSystemWriter(folder, sync_files=False),
                 planner=dcp.DefaultSavePlanner(**case.planner), no_dist=True)
        self.scratch = self.scratch / "bytes"
        self.scratch.mkdir(exist_ok=True)
        ours = self.rewrite(folder, read_metadata(folder))
        self.scratch = self.scratch.parent
        if ours is not None:
            same = same_bytes(ours / ".metadata", folder / ".metadata")
            self.check(same, f"{case.name}: .metadata has other bytes than torch's from one process")
            self.identical += same

    def check_loaded(self, ours, folder, metadata):
        comparison = Comparison()
        comparison.same(load_flat(ours, metadata), load_flat(folder, metadata), "", sharing={})
        for fault in comparison.faults:
            self.check(False, f"dcp.load {fault}")

    def check_attribute(self):
        """A further attribute is there, and nothing else changes."""
        folder = self.options.golden / "no_dist"
        theirs = read_metadata(folder)
        ours = self.rewrite(folder, theirs, *MANIFEST)
        if ours is not None:
            setattr(theirs, *MANIFEST)
            for fault in differences(read_metadata(ours), theirs, "with an attribute"):
                self.check(False, fault)
            load_flat(ours, theirs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True, type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--golden", required=True, type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    torch.set_num_threads(1)
    alone = {case.name: case for case in CASES if case.world == 1 and case.name not in {**OTHER_SHARDS, **OTHER_METADATA}}
    with tempfile.TemporaryDirectory(prefix="cairn-writer-") as scratch:
        suite = Suite(options, pathlib.Path(scratch))
        for case in json.loads((options.golden / "manifest.json").read_text()):
            if not options.only or case["name"] in options.only:
                before = suite.failures
                suite.run_case(case)
                if alone.get(case["name"]):
                    suite.check_bytes(alone[case["name"]])
                print("ok    " if suite.failures == before else "FAILED", case["name"], flush=True)
        suite.scratch = pathlib.Path(scratch) / "attribute"
        suite.scratch.mkdir()
        suite.check_attribute()
    print(f"{suite.identical} times the bytes of torch's .metadata; {suite.failures} failures")
    return 1 if suite.failures else 0


if __name__ == "__main__":
    sys.exit(main())
