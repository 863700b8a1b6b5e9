# SPDX-License-Identifier: BSD-3-Clause
"""The battery's sinks: what Cairn writes of one source, read by the result's own library."""
import json
import pathlib
import subprocess

import torch
import torch.distributed.checkpoint as dcp
from safetensors import safe_open
from safetensors.torch import load_file
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from battery_sources import RANKS
from battery_states import PACKED, SAFETENSORS_LACKS, as_dcp, flat_objects, flat_tensors, in_order, plain
from compare import Comparison, same_bytes

TIMEOUT_S = 120
INDEX = "model.safetensors.index.json"
RULES = "*scalars* replicated\n*dtypes* shard(1)\n*shapes.tall replicated\n*cube* shard(2)\n"


class Run:
    """One source through all sinks."""

    def __init__(self, options, source, folder):
        self.options, self.source, self.folder = options, source, folder
        self.faults, self.conversions = [], 0
        folder.mkdir(parents=True)
        (folder / "rules").write_text(RULES)
        self.tensors, self.objects = flat_tensors(source.state), flat_objects(source.state)

    def all_sinks(self, wanted):
        self.attempt("listing", self.check_listing)
        for name, sink in (("torch file", self.to_torch_file), ("safetensors file", self.to_safetensors_file), ("safetensors shards", self.to_safetensors_shards),
                           ("dcp", self.to_dcp), ("columns", self.to_dcp_of_columns), ("layout", self.to_dcp_by_rules), ("split", self.to_split_dcp)):
            if wanted in name:
                self.attempt(name, sink)

    def attempt(self, name, sink):
        try:
            sink()
        except Exception as error:  # a fault of this sink; the others still run
            self.faults.append(f"{name}: {type(error).__name__}: {str(error)[:1500]}")

    def require(self, condition, text):
        if not condition:
            raise AssertionError(text)

    def cairn(self, *words, ranks=0, status=0, cwd=None):
        command = [self.options.cairn, *map(str, words)]
        if ranks:
            command = [self.options.env, "mpirun", "-n", str(ranks), *command]
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL, cwd=cwd)
        self.require(done.returncode == status, f"{' '.join(command)}: status {done.returncode}: {done.stderr.decode(errors='replace')[-800:]}")
        return done

    def converted(self, target, *words, source=None):
        """Alone and on several ranks, to one relative name: -> one of both, which are the same."""
        made = []
        for ranks in (0, RANKS):
            parent = self.folder / f"np{ranks}"
            parent.mkdir(exist_ok=True)
            self.cairn("convert", "--no-sync", "--quiet", source or self.source.path, target, *(() if source else self.source.options), *words, ranks=ranks, cwd=parent)
            made.append(parent / target)
        self.conversions += 2
        self.require(same_trees(*made), f"{target}: other bytes on {RANKS} ranks")
        return made[0]

    def same(self, found, expected, where):
        comparison = Comparison(limit=5)
        comparison.same(in_order(found), in_order(expected), "")
        self.require(not comparison.faults, f"{where}: {'; '.join(comparison.faults)}")

    # ---- what is there

    def check_listing(self):
        if self.source.options:
            return
        listing = json.loads(self.cairn("ls", "--json", self.source.path).stdout)
        self.require(listing["format"] == self.source.form, f"format {listing['format']}")
        found = sorted((t["name"], t["dtype"], t["shape"], t["bytes"]) for t in listing["tensors"])
        expected = sorted((n, str(t.dtype).removeprefix("torch."), list(t.shape), t.numel() * t.itemsize) for n, t in self.tensors.items())
        self.require(found == expected, f"tensors {difference(found, expected)}")
        found, expected = sorted(o["name"] for o in listing["objects"]), sorted(self.objects)
        self.require(found == expected, f"objects {difference(found, expected)}")
        self.cairn("verify", "--quiet", self.source.path)

    # ---- one torch file

    def to_torch_file(self):
        made = self.converted("whole.pth")
        keeps = self.source.kind == "torch"  # int keys and empty dicts, which a DCP directory has not
        expected = plain(self.source.state) if keeps else as_dcp(self.source.state)
        self.same(torch.load(made, weights_only=False), expected, "torch.load")
        if self.source.path.is_file():
            return
        self.cairn("consolidate", "--no-sync", "--quiet", self.source.path, self.folder / "whole.pth", *self.source.options)
        self.require(same_bytes(made, self.folder / "whole.pth"), "consolidate gives other bytes than convert")

    # ---- safetensors

    def safe_words(self):
        """What has no place in these files is left out by the words that the refusal asks for."""
        lacking = [name for name, tensor in self.tensors.items() if has_no_code(tensor)]
        words = ["--objects", "drop"] if self.objects else []
        for name in sorted({str(self.tensors[name].dtype).removeprefix("torch.") for name in lacking} - {PACKED}):
            words += ["--exclude", f"*{name}"]
        if any(self.tensors[name].dtype == getattr(torch, PACKED) for name in lacking):
            words += ["--exclude", f"*scalars.{PACKED}"]
        if lacking:
            self.require_refusal(words[:2] if self.objects else [], {self.tensors[name].dtype: name for name in lacking}.values())
        if self.objects:
            self.require_refusal([], list(self.objects)[:1])
        return words, {name: tensor for name, tensor in self.tensors.items() if name not in lacking}

    def require_refusal(self, words, names):
        target = self.folder / "refused.safetensors"
        said = self.cairn("convert", self.source.path, target, *self.source.options, *words, status=1).stderr.decode()
        self.require(all(name in said for name in names), f"the refusal does not name one of {list(names)}: {said}")
        self.require(not target.exists(), "a refused file is there")

    def to_safetensors_file(self):
        words, expected = self.safe_words()
        made = self.converted("whole.safetensors", *words)
        self.same(load_file(made), expected, "load_file")
        with safe_open(made, "pt") as file:
            self.require(file.metadata() == {"format": "pt"}, f"metadata {file.metadata()}")
        if self.source.kind == "safetensors":
            self.require(same_bytes(made, self.source.path), "other bytes than those of save_file")

    def to_safetensors_shards(self):
        words, expected = self.safe_words()
        made = self.converted("shards", "--to", "safetensors", "--max-shard-size", "300KB", *words)
        index = json.loads((made / INDEX).read_text())
        self.require(index["metadata"]["total_size"] == sum(t.numel() * t.itemsize for t in expected.values()), "total_size")
        self.require(sorted(p.name for p in made.iterdir()) == sorted({INDEX, *index["weight_map"].values()}), "files beside those of the index")
        found = {}
        for name in set(index["weight_map"].values()):
            with safe_open(made / name, "pt") as file:
                for key in file.keys():
                    self.require(index["weight_map"].get(key) == name and key not in found, f"{key!r} of {name} in the index")
                    found[key] = file.get_tensor(key)
        self.require(len(found) == len(index["weight_map"]) and len(set(index["weight_map"].values())) > 1, "names or files of the index")
        self.same(found, expected, "safe_open")
        self.same(load_file(self.converted("again.safetensors", source=made)), expected, "shards as one file")

    # ---- DCP directories

    def to_dcp(self):
        made = self.converted("dcp", "--ranks", RANKS)
        self.check_dcp(made, lambda name, tensor: 0)
        self.go_back(made)

    def to_dcp_of_columns(self):
        self.check_dcp(self.converted("columns", "--ranks", RANKS, "--dim", 1), lambda name, tensor: 1)

    def to_dcp_by_rules(self):
        names = "\n".join(self.tensors)
        rules = [line for line in RULES.splitlines() if line.split()[0].strip("*") in names]
        (self.folder / "rules").write_text("\n".join(rules) + "\n")

        def dim(name, tensor):
            return 2 if "cube" in name else None if name.endswith("shapes.tall") or "scalars" in name else 1 if "dtypes" in name else 0
        self.check_dcp(self.converted("ruled", "--ranks", RANKS, "--layout", self.folder / "rules"), dim)

    def to_split_dcp(self):
        top = list(as_dcp(self.source.state))
        if not all(isinstance(self.source.state[key], dict) for key in top):
            self.cairn("convert", self.source.path, self.folder / "refused", *self.source.options, "--split", f"{top[0] or 'x'}=a", status=1)
            return self.require(not (self.folder / "refused").exists(), "a refused directory is there")
        made = self.converted("split", "--ranks", RANKS, "--split", ",".join(f"{key}=d_{key}" for key in top))
        for key in top:
            found = as_torch_loads(made / f"d_{key}")
            self.same(found, as_dcp(self.source.state[key]), f"--split, {key}")

    def check_dcp(self, made, dim):
        """The chunks are torch.chunk's, torch loads each tensor, and its own conversion to a file gives the whole state."""
        self.cairn("verify", "--quiet", made)
        metadata = dcp.FileSystemReader(made).read_metadata().state_dict_metadata
        for name, tensor in self.tensors.items():
            chunks = sorted((tuple(chunk.offsets), tuple(chunk.sizes)) for chunk in metadata[name].chunks)
            self.require(chunks == expected_chunks(tensor, dim(name, tensor)), f"chunks of {name!r}: {chunks}")
        wanted = {name: torch.zeros_like(tensor) if tensor.numel() else tensor.clone() for name, tensor in self.tensors.items()}
        dcp.load(wanted, checkpoint_id=made, no_dist=True)
        self.same(wanted, self.tensors, "dcp.load")
        self.same(as_torch_loads(made), as_dcp(self.source.state), "dcp_to_torch_save")

    def go_back(self, made):
        """X → DCP → X."""
        if self.source.kind == "torch":
            back = self.converted("back.pth", source=made)
            self.same(torch.load(back, weights_only=False), as_dcp(self.source.state), "back as a torch file")
        elif self.source.kind == "safetensors":
            self.require(same_bytes(self.converted("back.safetensors", source=made), self.source.path), "back as a safetensors file: other bytes")
        elif self.source.kind == "safetensors shards":
            back = self.converted("back", "--to", "safetensors", "--max-shard-size", "100KB", source=made)
            found = {}
            for path in back.glob("*.safetensors"):
                found |= load_file(path)
            self.same(found, self.tensors, "back as shards")
        elif self.source.form != "hf_dcp" and not self.source.options:
            self.reshard_twice()

    def reshard_twice(self):
        """DCP → DCP → DCP, and a Lightning or Megatron folder stays one."""
        first, second = self.folder / "reshard5", self.folder / "reshard2"
        self.cairn("reshard", "--no-sync", "--quiet", self.source.path, first, "--ranks", 5, "--dim", 1)
        self.cairn("reshard", "--no-sync", "--quiet", first, second, "--ranks", 2, ranks=RANKS)
        if self.source.kind != "folder":
            return self.same(as_torch_loads(second), as_dcp(self.source.state), "resharded twice")
        for name in ("meta.pt", "common.pt", "metadata.json"):
            if (self.source.path / name).exists():
                self.require(same_bytes(second / name, self.source.path / name), f"another {name}")
        self.same(as_torch_loads(second), as_torch_loads(self.source.path), "resharded twice")
        self.cairn("convert", "--no-sync", "--quiet", second, self.folder / "np0" / "of_second.pth")
        self.same(torch.load(self.folder / "np0" / "of_second.pth", weights_only=False), as_dcp(self.source.state), "the folder resharded, as a file")


def has_no_code(tensor):
    name = str(tensor.dtype).removeprefix("torch.")
    return name in SAFETENSORS_LACKS or (name == PACKED and tensor.dim() == 0)


def expected_chunks(tensor, dim):
    if dim is None or dim >= tensor.dim() or tensor.numel() == 0:
        return [((0,) * tensor.dim(), tuple(tensor.shape))]
    chunks, at = [], 0
    for part in tensor.chunk(RANKS, dim):
        offsets = [0] * tensor.dim()
        offsets[dim] = at
        chunks.append((tuple(offsets), tuple(part.shape)))
        at += part.shape[dim]
    return sorted(chunks)


def as_torch_loads(directory):
    path = directory.with_name(directory.name + ".torch.pth")
    dcp_to_torch_save(directory, path)
    try:
        return torch.load(path, weights_only=False)
    finally:
        path.unlink()


def difference(found, expected):
    return f"only found {[x for x in found if x not in expected][:5]}, only expected {[x for x in expected if x not in found][:5]}"


def same_trees(a, b):
    if a.is_file():
        return same_bytes(a, b)
    names = sorted(str(p.relative_to(a)) for p in a.rglob("*") if p.is_file())
    return names == sorted(str(p.relative_to(b)) for p in b.rglob("*") if p.is_file()) and all(same_bytes(a / n, b / n) for n in names)
