# SPDX-License-Identifier: BSD-3-Clause
"""safetensors files as a source and as a result, beside the safetensors library and torch.

    run_safetensors.py --cairn PROGRAM --golden DIR [--env launch/env.sh] [NAME …]

Sources are written by the library (one file, shards, HuggingFaceStorageWriter), results are read by it: and where it writes the same
tensors, they are its own bytes. Every conversion runs on 1, 2, 3, 4 and 8 MPI ranks, or alone with several threads, and gives the same
bytes.
"""
import argparse
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file, load_model, save_file, save_model  # noqa: E402

from compare import Comparison, same_bytes  # noqa: E402
from golden_cases import DTYPES, of_dtype  # noqa: E402

RANKS = (1, 2, 3, 4, 8)
WITHOUT_CODE = ("complex128", "complex32")
INDEX = "model.safetensors.index.json"
options = None


def numbered(*shape, dtype=torch.float32):
    return torch.arange(torch.Size(shape).numel(), dtype=torch.int64).reshape(shape).to(dtype)


def dtypes():
    return {name: of_dtype(name, 6, 10) for name in DTYPES if name not in WITHOUT_CODE}


def shapes():
    """No elements, no dimensions, odd names."""
    return {"scalar": torch.tensor(2.5), "one": torch.tensor([True]), "none": torch.empty(0), "rows": torch.empty(0, 3, dtype=torch.int16),
            "columns": torch.empty(3, 0), "": numbered(2), "ä ü\n": numbered(3), "a/b": numbered(2, 2), 'q"\\': numbered(1), "\u2028": numbered(2),
            "\x7f": numbered(2), "a.b.0.c": numbered(5, dtype=torch.uint8), "x" * 3000: numbered(1), "cube": numbered(3, 4, 5)}


def windows():
    """Tensors around a window of a megabyte, and larger."""
    state = {f"t{n}": numbered(n, dtype=torch.uint8) for n in (1, 63, 65, 65537, 1048575, 1048577)}
    return state | {"wide": numbered(3, 700_000, dtype=torch.int16), "tall": numbered(300_001, 5), "cube": numbered(70, 80, 90)}


STATES = (dtypes, shapes, windows)


def split(state, limit):
    """huggingface_hub's split_torch_state_dict_into_shards."""
    shards, current, size = [], {}, 0
    for name, tensor in state.items():
        length = tensor.numel() * tensor.element_size()
        if length > limit:
            shards.append({name: tensor})
            continue
        if size + length > limit:
            shards.append(current)
            current, size = {}, 0
        current[name] = tensor
        size += length
    return shards + ([current] if current else [])


class Safetensors(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cairn-safetensors-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def cairn(self, *arguments, ranks=0, status=0):
        command = [options.cairn, *map(str, arguments)]
        if ranks:
            command = [options.env, "mpirun", "-n", str(ranks), *command]
        result = subprocess.run(command, capture_output=True, timeout=120, stdin=subprocess.DEVNULL, cwd=self.folder)
        self.assertEqual(result.returncode, status, f"{command}\n{result.stderr.decode()[-2000:]}")
        return result.stdout

    def on_all_ranks(self, source, target, *arguments):
        """Converts on every number of ranks; returns one of the results, which are the same."""
        first = None
        for ranks in (0, *RANKS):
            made = self.folder / f"np{ranks}" / target
            made.parent.mkdir(exist_ok=True)
            self.cairn("convert", "--no-sync", "--threads", 1 + ranks % 3, source, made, *arguments, ranks=ranks)
            if first is None:
                first = made
            else:
                self.assertTrue(same_trees(first, made), f"{target} on {ranks} ranks")
                shutil.rmtree(made.parent)
        return first

    def same(self, ours, theirs):
        comparison = Comparison()
        comparison.same(dict(sorted(ours.items())), dict(sorted(theirs.items())), "")
        self.assertEqual(comparison.faults, [])

    def listed(self, path, form="safetensors"):
        listing = json.loads(self.cairn("ls", "--json", path))
        self.assertEqual(listing["format"], form)
        return sorted((t["name"], t["dtype"], t["shape"], t["bytes"]) for t in listing["tensors"])

    def described(self, state):
        return sorted((k, str(v.dtype).removeprefix("torch."), list(v.shape), v.numel() * v.element_size()) for k, v in state.items())

    # ---- one file

    def test_a_file_of_the_library_goes_through_all_kinds_and_comes_back_as_its_bytes(self):
        for build in STATES:
            with self.subTest(build.__name__):
                self.go_round(build())

    def go_round(self, state):
        source = self.folder / "source.safetensors"
        save_file(state, source, metadata={"format": "pt"})
        self.assertEqual(self.listed(source), self.described(state))
        self.cairn("verify", "--quiet", source)
        pth = self.on_all_ranks(source, "a.pth")
        self.same(torch.load(pth), state)
        self.cairn("consolidate", source, self.folder / "c.pth", "--overwrite")
        self.same(torch.load(self.folder / "c.pth"), state)
        for ranks, dim in ((1, 0), (3, 0), (2, 1)):
            name = f"dcp{ranks}"
            made = self.on_all_ranks(source, name, "--ranks", ranks, "--dim", dim)
            self.cairn("verify", made)
            wanted = {k: torch.zeros_like(v) for k, v in state.items()}
            dcp.load(wanted, checkpoint_id=made, no_dist=True)
            self.same(wanted, state)
            back = self.on_all_ranks(made, "back.safetensors")
            self.assertTrue(same_bytes(back, source), f"from {name}")
            back.unlink()
            shutil.rmtree(made)
        back = self.on_all_ranks(pth, "back.safetensors")
        self.assertTrue(same_bytes(back, source), "from a torch file")
        shutil.rmtree(self.folder / "np0")

    # ---- shards

    def test_shards_are_those_of_hugging_faces_tools(self):
        for build, limit in ((dtypes, 300), (shapes, 20), (shapes, 1), (windows, 1 << 20), (windows, 5_000_000)):
            with self.subTest(state=build.__name__, limit=limit):
                state = build()
                torch.save(state, self.folder / "s.pth")
                made = self.on_all_ranks(self.folder / "s.pth", "out", "--to", "safetensors", "--max-shard-size", limit)
                self.check_shards(made, state, limit)
                self.assertEqual(self.listed(made), self.described(state))
                again = self.on_all_ranks(made, "again.safetensors")
                self.same(load_all(again), state)
                again.unlink()
                self.cairn("convert", made, self.folder / "dcp", "--ranks", 2, "--overwrite")
                wanted = {k: torch.zeros_like(v) for k, v in state.items()}
                dcp.load(wanted, checkpoint_id=self.folder / "dcp", no_dist=True)
                self.same(wanted, state)
                shutil.rmtree(self.folder / "np0")

    def check_shards(self, folder, state, limit):
        shards = split(state, limit)
        self.assertGreater(len(shards), 1)
        weights = {}
        for i, shard in enumerate(shards, 1):
            name = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
            save_file(shard, self.folder / "expected", metadata={"format": "pt"})
            self.assertTrue(same_bytes(folder / name, self.folder / "expected"), f"{name}: {sorted(shard)}")
            weights |= dict.fromkeys(shard, name)
        total = sum(v.numel() * v.element_size() for v in state.values())
        index = json.dumps({"metadata": {"total_size": total}, "weight_map": weights}, indent=2, sort_keys=True) + "\n"
        self.assertEqual((folder / INDEX).read_text(), index)
        self.assertEqual(sorted(p.name for p in folder.iterdir()), sorted({*weights.values(), INDEX}))

    def test_one_shard_has_no_index(self):
        torch.save({"w": numbered(3)}, self.folder / "s.pth")
        made = self.on_all_ranks(self.folder / "s.pth", "out/", "--to", "safetensors")
        self.assertEqual([p.name for p in made.iterdir()], ["model.safetensors"])
        self.same(load_file(made / "model.safetensors"), {"w": numbered(3)})

    def test_a_state_without_tensors_is_an_empty_file(self):
        torch.save({"step": 3}, self.folder / "s.pth")
        made = self.on_all_ranks(self.folder / "s.pth", "o.safetensors", "--objects", "drop", "--quiet")
        self.assertEqual(load_file(made), {})
        self.cairn("convert", made, self.folder / "again.pth")
        self.assertEqual(torch.load(self.folder / "again.pth"), {})

    # ---- tied weights

    def test_tied_weights_are_kept_or_recorded_as_save_model_records_them(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = torch.nn.Embedding(7, 4)
                self.head = torch.nn.Linear(4, 7, bias=False)
                self.other = torch.nn.Linear(4, 7, bias=False)
                self.head.weight = self.embed.weight

        model = Model()
        torch.save(model.state_dict(), self.folder / "m.pth")
        kept = self.on_all_ranks(self.folder / "m.pth", "kept.safetensors")
        self.same(load_file(kept), {k: v.detach() for k, v in model.state_dict().items()})
        alias = self.on_all_ranks(self.folder / "m.pth", "alias.safetensors", "--tied", "alias")
        save_model(model, self.folder / "theirs.safetensors", metadata={"format": "pt"})
        with safe_open(alias, "pt") as ours, safe_open(self.folder / "theirs.safetensors", "pt") as theirs:
            self.assertEqual(ours.metadata(), theirs.metadata())
        self.same(load_file(alias), load_file(self.folder / "theirs.safetensors"))
        other = Model()
        self.assertEqual(load_model(other, alias), (set(), []))
        self.assertTrue(torch.equal(other.head.weight, model.embed.weight))
        self.check_other_names(self.folder / "theirs.safetensors", alias, {k: v.detach() for k, v in model.state_dict().items()})
        # Shares a storage, but is another view of it.
        base = numbered(12)
        torch.save({"a": base[:6], "b": base[6:], "c": base[:6].view(2, 3), "d": base[:6]}, self.folder / "views.pth")
        made = self.on_all_ranks(self.folder / "views.pth", "views.safetensors", "--tied", "alias")
        self.same(load_file(made), {"a": base[:6].clone(), "b": base[6:].clone(), "c": base[:6].view(2, 3).clone()})

    def check_other_names(self, theirs, ours, state):
        """Files of save_model, and shards of Cairn's: all names come back, from them and from what is made of them."""
        self.cairn("convert", ours, self.folder / "shards", "--to", "safetensors", "--tied", "alias", "--max-shard-size", 100)
        self.assertGreater(len(list((self.folder / "shards").glob("*.safetensors"))), 1)
        for i, source in enumerate((theirs, ours, self.folder / "shards")):
            self.assertEqual(self.listed(source), self.described(state))
            self.cairn("verify", "--quiet", source)
            for ranks in (0, 3):
                made = self.folder / f"other{i}.np{ranks}"
                self.cairn("convert", source, made / "all.pth", ranks=ranks)
                self.same(torch.load(made / "all.pth"), state)
                self.cairn("convert", source, made / "all.safetensors", ranks=ranks)
                self.same(load_file(made / "all.safetensors"), state)
                self.cairn("convert", source, made / "again.safetensors", "--tied", "alias", ranks=ranks)
                self.assertTrue(same_bytes(made / "again.safetensors", ours))
                self.cairn("convert", source, made / "dcp", "--ranks", 2, ranks=ranks)
                wanted = {k: torch.zeros_like(v) for k, v in state.items()}
                dcp.load(wanted, checkpoint_id=made / "dcp", no_dist=True)
                self.same(wanted, state)

    # ---- DCP directories of torch

    def test_directories_of_torch(self):
        cases = json.loads((options.golden / "manifest.json").read_text())
        done = 0
        for case in cases:
            reference = torch.load(options.golden / f"{case['name']}.ref" / "model.pth", weights_only=False)
            state = flat_tensors(reference)
            if any(str(v.dtype).removeprefix("torch.") in WITHOUT_CODE for v in state.values()) or not all(map(is_utf8, state)):
                self.cairn("convert", "--objects", "drop", options.golden / case["name"], self.folder / "refused.safetensors", status=1)
                self.assertFalse((self.folder / "refused.safetensors").exists())
                continue
            with self.subTest(case["name"]):
                made = self.folder / "out"
                self.cairn("convert", "--quiet", "--objects", "drop", "--no-sync", "--overwrite", options.golden / case["name"], made,
                           "--to", "safetensors", "--max-shard-size", 100_000, ranks=(0, 2, 3)[done % 3])
                self.same(load_all(made), {k: v.detach().contiguous() for k, v in state.items()})
            done += 1
        self.assertGreater(done, 10)

    # ---- Hugging Face's DCP format

    def test_shards_of_boxes_are_read(self):
        for world in (1, 2, 3):
            folder = self.folder / f"hf{world}"
            multiprocessing.spawn(save_boxes, (world, str(self.folder / f"store{world}"), str(folder)), nprocs=world)
            state = box_state()
            self.assertEqual(self.listed(folder, "hf_dcp"), self.described(state))
            self.cairn("verify", "--quiet", folder)
            made = self.on_all_ranks(folder, "a.pth")
            self.same(torch.load(made), state)
            made = self.on_all_ranks(folder, "a.safetensors")
            self.same(load_file(made), state)
            shutil.rmtree(self.folder / "np0")

    # ---- large files

    def test_offsets_beyond_4_gib_are_read(self):
        large, small = (1 << 32) + 8, numbered(5)
        header = json.dumps({"large": {"dtype": "U8", "shape": [large], "data_offsets": [0, large]},
                             "small": {"dtype": "F32", "shape": [5], "data_offsets": [large, large + 20]}}).encode()
        path = self.folder / "sparse.safetensors"
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            file.seek(large, 1)
            file.write(small.numpy().tobytes())
        self.cairn("verify", "--quiet", path)
        made = self.on_all_ranks(path, "small.safetensors", "--select", "small")
        self.same(load_file(made), {"small": small})


class Slow(Safetensors):
    """Gigabytes."""

    def test_files_beyond_4_gib_are_written(self):
        state = {"large": torch.zeros((1 << 32) + 8, dtype=torch.uint8), "small": numbered(5)}
        state["large"][-8:] = torch.arange(8)
        save_file(state, self.folder / "s.safetensors", metadata={"format": "pt"})
        self.cairn("convert", "--no-sync", self.folder / "s.safetensors", self.folder / "o.safetensors", ranks=2)
        self.assertTrue(same_bytes(self.folder / "s.safetensors", self.folder / "o.safetensors"))

    def test_headers_that_no_reader_takes_are_refused(self):
        torch.save({f"{i:06d}" + "x" * 80: torch.zeros(1) for i in range(700_000)}, self.folder / "many.pth")
        for words, said in (((self.folder / "o.safetensors",), "name a directory"),
                            ((self.folder / "out", "--to", "safetensors"), "smaller --max-shard-size")):
            command = [options.cairn, "convert", str(self.folder / "many.pth"), *map(str, words)]
            result = subprocess.run(command, capture_output=True)
            self.assertEqual(result.returncode, 1)
            self.assertIn(said, result.stderr.decode())
        self.cairn("convert", self.folder / "many.pth", self.folder / "out", "--to", "safetensors", "--max-shard-size", 1_000_000)
        self.assertEqual(len(load_all(self.folder / "out")), 700_000)


def box_state():
    return {"rows": numbered(7, 3), "columns": numbered(4, 6, dtype=torch.bfloat16), "plain": numbered(5, dtype=torch.int64),
            "scalar": torch.tensor(3.5)}


def save_boxes(rank, world, store, folder):
    import torch.distributed as dist
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    state = box_state()
    state["rows"] = distribute_tensor(state["rows"], mesh, [Shard(0)])
    state["columns"] = distribute_tensor(state["columns"], mesh, [Shard(1)])
    dcp.save(state, storage_writer=HuggingFaceStorageWriter(folder, save_distributed=True))
    dist.destroy_process_group()


def flat_tensors(value, prefix=""):
    """As DCP flattens: tuples are objects."""
    if isinstance(value, torch.Tensor):
        return {prefix: value}
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = {}
    for key, below in steps:
        found |= flat_tensors(below, f"{prefix}.{key}" if prefix else str(key))
    return found


def is_utf8(name):
    try:
        return bool(name.encode() or True)
    except UnicodeEncodeError:
        return False


def load_all(path):
    if path.is_file():
        return load_file(path)
    if not (path / INDEX).exists():
        return load_file(path / "model.safetensors")
    state = {}
    for name in set(json.loads((path / INDEX).read_text())["weight_map"].values()):
        state |= load_file(path / name)
    return state


def same_trees(a, b):
    if a.is_file():
        return same_bytes(a, b)
    names = sorted(p.name for p in a.iterdir())
    return names == sorted(p.name for p in b.iterdir()) and all(same_bytes(a / n, b / n) for n in names if n != ".metadata")


def main():
    global options
    parser = argparse.ArgumentParser()
    parser.add_argument("--cairn", required=True, type=lambda p: str(pathlib.Path(p).resolve()))
    parser.add_argument("--golden", required=True, type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--env", default=str(HERE.parents[1] / "launch" / "env.sh"))
    parser.add_argument("names", nargs="*", default=["Safetensors"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    unittest.main(argv=[sys.argv[0], *options.names], verbosity=2)


if __name__ == "__main__":
    main()
