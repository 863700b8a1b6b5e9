# SPDX-License-Identifier: BSD-3-Clause
"""8-bit weights with scales by blocks, as DeepSeek-V3 has them, written as bfloat16 by `--dequant`.

    run_dequant.py --cairn CAIRN --env ENV.SH

What cairn writes has the bits of torch's own computation, from safetensors files and from DCP directories (rows, columns; plain items
and compressed ones), into torch files, safetensors files and DCP directories, on 1, 2, 3 and 4 ranks; torch's QuantizedHuggingFaceStorageReader
reads the same from the safetensors files. Whatever does not fit together is refused before anything is written.
"""
import argparse
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from torch.distributed.checkpoint.quantized_hf_storage import QuantizedHuggingFaceStorageReader  # noqa: E402

OPTIONS = argparse.Namespace()
COUNTS = (1, 2, 3, 4)
RANKS = 3
BLOCK = 128
SHAPES = {"square": (256, 256), "odd": (300, 513), "tall": (1000, 1), "flat": (1, 700), "small": (5, 7), "large": (1100, 1500), "none": (0, 40)}


def blocks(size):
    return -(-size // BLOCK)


def weight_and_scale(shape, dtype=torch.float8_e4m3fn, seed=0):
    """Every bit pattern that is no NaN occurs; the scales are of all sizes, so that results round, overflow and vanish."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    bits = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    weight = bits.view(dtype)
    weight = torch.where(torch.isfinite(weight.float()), bits, torch.zeros_like(bits)).view(dtype)
    scale = torch.randn(blocks(shape[0]), blocks(shape[1]), generator=generator)
    return weight, scale * 10.0 ** torch.randint(-3, 4, scale.shape, generator=generator)


def dequantized(weight, scale):
    rows, columns = weight.shape
    spread = scale.repeat_interleave(BLOCK, 0)[:rows].repeat_interleave(BLOCK, 1)[:, :columns]
    return (weight.to(torch.float32) * spread).to(torch.bfloat16)


@functools.cache
def stored_state():
    state = {"embed.weight": torch.arange(60, dtype=torch.float32).reshape(6, 10), "norm.weight": torch.ones(9, dtype=torch.bfloat16)}
    for name, shape in SHAPES.items():
        state[f"layers.{name}.weight"], state[f"layers.{name}.weight_scale_inv"] = weight_and_scale(shape)
    state["layers.wide.weight"], state["layers.wide.weight_scale_inv"] = weight_and_scale((140, 150), torch.float8_e5m2)
    return state


@functools.cache
def expected_state():
    state = stored_state()
    return {name: dequantized(tensor, state[name + "_scale_inv"]) if name + "_scale_inv" in state else tensor
            for name, tensor in state.items() if not name.endswith("_scale_inv")}


def save_on_ranks(rank, folder):
    import torch.distributed as dist
    from torch.distributed.checkpoint._extension import ZStandard
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))

    def place(tensor, dim):
        dim = min(dim, tensor.dim() - 1)
        pieces = list(torch.chunk(tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor, RANKS, dim))
        while len(pieces) < RANKS:
            pieces.append(pieces[0].narrow(dim, 0, 0))
        local = pieces[rank].contiguous().view(tensor.dtype)
        return DTensor.from_local(local, mesh, [Shard(dim)], run_check=False, shape=tensor.shape, stride=tensor.stride())

    for kind, dim, extensions in (("rows", 0, None), ("columns", 1, None), ("zstd", 0, [ZStandard()])):
        state = {"model": {name: place(tensor, dim) for name, tensor in stored_state().items()}, "step": 7}
        dcp.save(state, storage_writer=dcp.FileSystemWriter(f"{folder}/{kind}", _extensions=extensions))
    dist.destroy_process_group()


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else tensor.reshape(-1)


class Dequant(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="cairn-dequant-")
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.write_shards(stored_state(), cls.folder / "model")
        multiprocessing.spawn(save_on_ranks, (str(cls.folder),), RANKS)
        torch.save({"model": stored_state(), "step": 7}, cls.folder / "model.pth")

    @staticmethod
    def write_shards(state, folder):
        """Scales may be in other files than their weights."""
        folder.mkdir()
        names = sorted(state)
        parts = [names[0::2], names[1::2]]
        weight_map = {}
        for i, part in enumerate(parts):
            file = f"model-{i + 1:05}-of-{len(parts):05}.safetensors"
            save_file({name: state[name] for name in part}, folder / file, {"format": "pt"})
            weight_map |= dict.fromkeys(part, file)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))

    def cairn(self, *words, ranks=1, status=0):
        command = [OPTIONS.cairn, *map(str, words)]
        if ranks > 1:
            command = [OPTIONS.env, "mpirun", "-n", str(ranks), *command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, status, f"{words}: {done.stderr}")
        return done

    def out(self, name):
        folder = tempfile.TemporaryDirectory(prefix="cairn-dequant-out-")
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name) / name

    def assert_state(self, state, expected):
        self.assertEqual(sorted(state), sorted(expected))
        for name, tensor in expected.items():
            self.assertEqual((state[name].dtype, state[name].shape), (tensor.dtype, tensor.shape), name)
            self.assertTrue(torch.equal(bits(state[name]), bits(tensor)), name)

    def test_into_a_torch_file(self):
        for source, command in (("rows", "consolidate"), ("columns", "consolidate"), ("zstd", "consolidate"), ("model.pth", "convert")):
            whole = None
            for ranks in COUNTS:
                with self.subTest(source=source, ranks=ranks):
                    result = self.out("model.pth")
                    done = self.cairn(command, self.folder / source, result, "--dequant", ranks=ranks)
                    self.assertIn(f"{len(SHAPES) + 1} tensors of 8-bit floats become bfloat16", done.stderr)
                    loaded = torch.load(result)
                    self.assertEqual(loaded["step"], 7)
                    self.assert_state(loaded["model"], expected_state())
                    whole = whole or result.read_bytes()
                    self.assertEqual(result.read_bytes(), whole)

    def test_gathered(self):
        result = self.out("model.pth")
        self.cairn("consolidate", self.folder / "columns", result, "--dequant", "--write", "gather", ranks=3)
        self.assert_state(torch.load(result)["model"], expected_state())

    def test_safetensors_files(self):
        for words in (("--to", "safetensors"), ("--to", "safetensors", "--max-shard-size", "1MB")):
            for ranks in COUNTS:
                with self.subTest(words=words, ranks=ranks):
                    result = self.out("result")
                    self.cairn("convert", self.folder / "model", result, "--dequant", *words, ranks=ranks)
                    state = {}
                    for file in result.glob("*.safetensors"):
                        state |= load_file(file)
                    self.assert_state(state, expected_state())
        result = self.out("model.pth")
        self.cairn("consolidate", self.folder / "model", result, "--dequant", "--flat", ranks=2)
        self.assert_state(torch.load(result), expected_state())

    def test_into_a_dcp_directory(self):
        for dim in (0, 1):
            result = self.out("result")
            self.cairn("convert", self.folder / "columns", result, "--to", "dcp", "--dequant", "--ranks", "4", "--dim", dim, ranks=3)
            self.cairn("verify", result)
            state = {"model": {name: torch.zeros_like(tensor) for name, tensor in expected_state().items()}}
            dcp.load(state, checkpoint_id=str(result), no_dist=True)
            self.assert_state(state["model"], expected_state())

    def test_torch_reads_the_same(self):
        """Its reader knows float8_e4m3fn with names that end in .weight."""
        names = [f"layers.{name}.weight" for name in SHAPES if name != "none"]
        state = {name: torch.zeros(expected_state()[name].shape, dtype=torch.bfloat16) for name in names}
        dcp.load(state, storage_reader=QuantizedHuggingFaceStorageReader(str(self.folder / "model"), target_dtype=torch.bfloat16), no_dist=True)
        self.assert_state(state, {name: expected_state()[name] for name in names})

    def test_values_that_are_none(self):
        weight, scale = weight_and_scale((130, 130))
        pattern = torch.arange(256, dtype=torch.uint8).repeat(130)[:130 * 130].reshape(130, 130)
        for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
            scale = torch.tensor([[float("inf"), float("nan")], [0.0, -3e38]])
            source, result = self.out("model.safetensors"), self.out("model.pth")
            save_file({"w": pattern.view(dtype), "w_scale_inv": scale}, source)
            self.cairn("convert", source, result, "--dequant")
            ours, theirs = torch.load(result)["w"], dequantized(pattern.view(dtype), scale)
            self.assertTrue(torch.equal(ours.isnan(), theirs.isnan()))
            self.assertTrue(torch.equal(bits(ours.nan_to_num(nan=1.0)), bits(theirs.nan_to_num(nan=1.0))))
            self.assertGreater(int(theirs.isnan().sum()), 0)

    def test_the_other_rules_come_after(self):
        result = self.out("model.pth")
        self.cairn("consolidate", self.folder / "rows", result, "--dequant", "--select", "model.layers.*", "--strip-prefix", "model",
                   "--cast", "*odd*=float32", ranks=2)
        expected = {name: tensor for name, tensor in expected_state().items() if name.startswith("layers.")}
        expected["layers.odd.weight"] = expected["layers.odd.weight"].float()
        flat = self.out("flat.pth")
        self.cairn("convert", result, flat, "--flat")
        self.assert_state(torch.load(flat), expected)

    def test_the_report_names_the_scales(self):
        report = json.loads(self.cairn("consolidate", self.folder / "rows", self.out("model.pth"), "--dequant", "--json").stdout)
        self.assertEqual(len(report["skipped"]), len(SHAPES) + 1)
        self.assertTrue(any("'model.layers.odd.weight_scale_inv'" in text for text in report["skipped"]))
        self.assertEqual(report["outputs"][0]["tensors"], len(expected_state()))
        dry = self.cairn("consolidate", self.folder / "rows", self.out("model.pth"), "--dequant", "--dry-run").stdout
        self.assertIn("bfloat16", dry)
        self.assertNotIn("_scale_inv", dry)

    def test_a_little_memory(self):
        result = self.out("model.pth")
        self.cairn("consolidate", self.folder / "columns", result, "--dequant", "--max-memory", "6MiB", "--threads", "1")
        self.assert_state(torch.load(result)["model"], expected_state())

    def test_damaged_weights_are_found(self):
        source = self.out("damaged")
        source.mkdir()
        for one in (self.folder / "rows").iterdir():
            (source / one.name).write_bytes(one.read_bytes())
        content = bytearray((source / "__0_0.distcp").read_bytes())
        at = content.find(bytes(bits(stored_state()["layers.large.weight"][200, :200]).tolist()))
        self.assertGreater(at, 0)
        content[at] ^= 1
        (source / "__0_0.distcp").write_bytes(content)
        result = self.out("model.pth")
        error = self.cairn("consolidate", source, result, "--dequant", ranks=2, status=1).stderr
        self.assertRegex(error, r"'model\.layers\.large\.weight'.*CRC-32")
        self.assertFalse(result.exists())

    def refused(self, words, state, status=1, options=()):
        for ranks in (1, 2):
            source, result = self.out("model.safetensors"), self.out("result.pth")
            save_file({name: tensor.clone() for name, tensor in state.items()}, source)
            self.assertRegex(self.cairn("convert", source, result, "--dequant", *options, ranks=ranks, status=status).stderr, words)
            self.assertEqual(list(result.parent.iterdir()), [])

    def test_what_does_not_fit_together(self):
        weight, scale = weight_and_scale((300, 200))
        self.refused(r"without a companion NAME_scale_inv: 'b\.weight'", {"a.weight": weight, "a.weight_scale_inv": scale, "b.weight": weight})
        self.refused(r"'a\.weight_scale_inv' is a companion, and there is no tensor 'a\.weight'", {"a.weight_scale_inv": scale, "b": scale})
        self.refused(r"the companion has shape \[2, 2\], \[3, 2\] expected", {"a": weight, "a_scale_inv": torch.ones(2, 2)})
        self.refused(r"the companion has shape \[3\], \[3, 2\] expected", {"a": weight, "a_scale_inv": torch.ones(3)})
        self.refused(r"the companion is bfloat16, float32 expected", {"a": weight, "a_scale_inv": scale.bfloat16()})
        self.refused(r"the tensor is bfloat16, float8_e4m3fn or float8_e5m2 expected", {"a": weight.to(torch.bfloat16), "a_scale_inv": scale})
        self.refused(r"the tensor has shape \[300\], two dimensions expected", {"a": weight[:, 0].contiguous(), "a_scale_inv": torch.ones(3)})
        self.refused(r"none of 1 tensors has a type of 8-bit floats", {"a": torch.ones(2)})
        error = self.cairn("consolidate", self.folder / "rows", self.out("model.pth"), "--dequant", "--copy", "kernel", status=2).stderr
        self.assertIn("dequant goes with --copy user", error)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for option in ("cairn", "env"):
        parser.add_argument("--" + option)
    OPTIONS, rest = parser.parse_known_args(namespace=OPTIONS)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
