# SPDX-License-Identifier: BSD-3-Clause
"""DCP directories whose items torch compressed, read by cairn.

    run_zstd.py --cairn CAIRN --env ENV.SH --load-job LOAD_JOB

torch.distributed.checkpoint writes with FileSystemWriter(_extensions=[ZStandard()]), on one rank and on three of gloo. What cairn
makes of it is the bytes that it makes of the same state saved plainly, on 1, 2 and 4 ranks. Then streams that are damaged in each
way: a sentence with tensor, file and offset, never a result.
"""
import argparse
import functools
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402
import zstandard  # noqa: E402
from torch.distributed.checkpoint._extension import ZStandard  # noqa: E402

OPTIONS = argparse.Namespace()
COUNTS = (1, 2, 4)
RANKS = 3
LAYOUTS = ("rows", "columns", "replicated", "all")


def noise(*shape, dtype=torch.float32, seed=0):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed + len(shape)))
    return values.to(dtype)


def whole_state():
    """Every size that is read in another way: none, small, one block of what is kept, many; views; objects."""
    return {"net": {"zeros": torch.zeros(3000, 1000), "noise": noise(1500, 1024), "half": noise(513, 700, dtype=torch.bfloat16),
                    "turned": noise(700, 900).t(), "small": torch.arange(10, dtype=torch.int64), "one": torch.tensor(2.5),
                    "none": torch.empty(0, 4), "fp8": noise(130, 70).to(torch.float8_e4m3fn)},
            "step": 7, "text": "a" * 100_000, "shared": {"pair": (torch.arange(1000), "x")}, "groups": [{"lr": 0.5, "betas": (0.9, 0.95)}]}


def save(state, directory, compressed, **options):
    extensions = [ZStandard()] if compressed else None
    dcp.save(state, storage_writer=dcp.FileSystemWriter(directory, _extensions=extensions), **options)


def save_on_ranks(rank, folder):
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    place = functools.partial(distribute_tensor, device_mesh=init_device_mesh("cpu", (RANKS,)))
    state = {"net": {"rows": place(noise(1000, 700), placements=[Shard(0)]), "columns": place(noise(900, 1200), placements=[Shard(1)]),
                     "whole": place(torch.arange(5), placements=[Replicate()]), "uneven": place(noise(7, 3), placements=[Shard(0)])},
             "step": 7, "own": {f"rank_{rank}": torch.full((2,), float(rank))}}
    for kind in ("plain", "zstd"):
        save(state, f"{folder}/{kind}", kind == "zstd")
    for kind in ("plain", "zstd"):
        save(state, f"{folder}/apart-{kind}", kind == "zstd", use_collectives=False)
    dist.destroy_process_group()


def file_bytes(path):
    path = pathlib.Path(path)
    if path.is_file():
        return path.read_bytes()
    return {one.name: one.read_bytes() for one in sorted(path.iterdir())}


class Zstd(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="cairn-zstd-")
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)
        for kind in ("plain", "zstd"):
            save(whole_state(), cls.folder / "one" / kind, kind == "zstd")
        (cls.folder / "three").mkdir()
        multiprocessing.spawn(save_on_ranks, (str(cls.folder / "three"),), RANKS)

    def cairn(self, *words, ranks=1, status=0, env=None):
        command = [OPTIONS.cairn, *map(str, words)]
        if ranks > 1:
            command = [OPTIONS.env, "mpirun", "-n", str(ranks), *command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, env=env)
        self.assertEqual(done.returncode, status, f"{words}: {done.stderr}")
        return done

    def out(self, name):
        folder = tempfile.TemporaryDirectory(prefix="cairn-zstd-out-")
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name) / name

    def same_results(self, name, *words, counts=COUNTS):
        """A command's result from the compressed directory is, on any number of ranks, that from the plain one."""
        for saved in ("one", "three"):
            with self.subTest(saved=saved, words=words):
                reference = self.out(name)
                self.cairn(words[0], self.folder / saved / "plain", reference, *words[1:])
                for ranks in counts:
                    result = self.out(name)
                    self.cairn(words[0], self.folder / saved / "zstd", result, *words[1:], ranks=ranks)
                    self.assertEqual(file_bytes(result), file_bytes(reference), f"{ranks} ranks")

    def test_the_items_are_compressed(self):
        sizes = [sum(one.stat().st_size for one in (self.folder / "one" / kind).glob("*.distcp")) for kind in ("plain", "zstd")]
        self.assertLess(sizes[1], sizes[0] * 0.7)

    def test_consolidated(self):
        self.same_results("model.pth", "consolidate")
        result = self.out("model.pth")
        self.cairn("consolidate", self.folder / "one" / "zstd", result)
        loaded, expected = torch.load(result), whole_state()
        for name, tensor in expected["net"].items():
            self.assertEqual(loaded["net"][name].dtype, tensor.dtype)
            self.assertTrue(torch.equal(loaded["net"][name].view(torch.uint8) if tensor.element_size() == 1 else loaded["net"][name],
                                        tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor), name)
        self.assertEqual((loaded["step"], loaded["text"], loaded["groups"]), (7, expected["text"], expected["groups"]))
        self.assertTrue(torch.equal(loaded["shared"]["pair"][0], torch.arange(1000)))

    def test_casts_and_a_little_memory(self):
        self.same_results("model.pth", "consolidate", "--cast", "bfloat16", "--max-memory", "4MiB", "--threads", "1", counts=(1, 2))

    def test_gathered(self):
        self.same_results("model.pth", "consolidate", "--write", "gather", counts=(2, 4))

    def test_copied_by_the_kernel_where_that_can(self):
        self.same_results("model.pth", "consolidate", "--copy", "kernel", counts=(1,))

    def test_a_dry_run_reads_little(self):
        result = self.out("model.pth")
        self.cairn("consolidate", self.folder / "three" / "zstd", result, "--dry-run", ranks=2)
        self.assertFalse(result.exists())

    def test_in_folders_of_other_kinds(self):
        """One metadata file a rank; Lightning's folder, whose shards are merged with meta.pt."""
        results = {}
        for kind in ("plain", "zstd"):
            folder = self.out("lightning") / kind
            net = whole_state()["net"]
            save({"model": {name: net[name] for name in ("noise", "small", "turned")}, "optimizer_0": {"state": {"m": net["half"]}, "groups": [{"lr": 0.5}]}},
                 folder, kind == "zstd")
            torch.save({"epoch": 3, "hyper": {"x": torch.arange(100)}}, folder / "meta.pt")
            for source in (folder, self.folder / "three" / f"apart-{kind}"):
                for ranks in (1, 3):
                    result = self.out("model.pth")
                    self.cairn("consolidate", source, result, ranks=ranks)
                    results.setdefault(source.name.removesuffix("zstd").removesuffix("plain"), set()).add(result.read_bytes())
                self.cairn("verify", source)
        self.assertEqual([len(found) for found in results.values()], [1, 1])

    def test_converted(self):
        self.same_results("model.safetensors", "convert", "--objects", "drop")
        self.same_results("dir", "convert", "--to", "safetensors", "--objects", "drop", "--max-shard-size", "3MB", counts=(1, 4))

    def test_resharded(self):
        for dim in (0, 1):
            for saved in ("one", "three"):
                for ranks in COUNTS:
                    with self.subTest(dim=dim, saved=saved, ranks=ranks):
                        result, reference = self.out("model.pth"), self.out("reference.pth")
                        shards = self.out("shards")
                        self.cairn("reshard", self.folder / saved / "zstd", shards, "--ranks", "7", "--dim", dim, ranks=ranks)
                        self.cairn("verify", shards)
                        self.cairn("consolidate", shards, result)
                        self.cairn("consolidate", self.folder / saved / "plain", reference)
                        ours, theirs = torch.load(result), torch.load(reference)
                        self.assertEqual(list(ours["net"]), list(theirs["net"]))
                        for name in theirs["net"]:
                            self.assertTrue(torch.equal(ours["net"][name].contiguous().view(-1).view(torch.uint8),
                                                        theirs["net"][name].contiguous().view(-1).view(torch.uint8)), name)

    def test_loaded_by_the_library(self):
        for saved in ("one", "three"):
            for ranks in COUNTS:
                with self.subTest(saved=saved, ranks=ranks):
                    self.load(self.folder / saved / "zstd", self.folder / saved / "plain", ranks)

    def load(self, compressed, plain, ranks):
        outcomes = []
        for source in (plain, compressed):
            out = self.out("loaded")
            for layout in LAYOUTS:
                (out / layout).mkdir(parents=True)
            done = subprocess.run([OPTIONS.env, "mpirun", "-n", str(ranks), OPTIONS.load_job, source, out, *LAYOUTS],
                                  capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0, done.stderr)
            outcomes.append({layout: file_bytes(out / layout) for layout in LAYOUTS})
        self.assertGreater(len(outcomes[0]["rows"]), ranks)
        self.assertEqual(outcomes[0], outcomes[1])

    def test_verified(self):
        for saved in ("one", "three"):
            for ranks in COUNTS:
                plain, compressed = (json.loads(self.cairn("verify", "--json", self.folder / saved / kind, ranks=ranks).stdout) for kind in ("plain", "zstd"))
                self.assertTrue(compressed["ok"] and compressed["complete"])
                self.assertEqual(compressed["checked_bytes"], plain["checked_bytes"])

    def test_listed(self):
        listings = [json.loads(self.cairn("ls", "--json", self.folder / "one" / kind).stdout) for kind in ("plain", "zstd")]
        self.assertEqual(listings[0]["tensors"], listings[1]["tensors"])

    def test_frames_one_after_the_other(self):
        """pyzstd ends a frame at each flush: an item may be several, and a skippable one is nothing."""
        def cut(item):
            whole = zstandard.ZstdDecompressor().stream_reader(item, read_across_frames=True).read()
            pieces = [whole[:1000], whole[1000:1000], whole[1000:]]
            return b"\x50\x2a\x4d\x18\3\0\0\0abc" + b"".join(zstandard.ZstdCompressor().compress(one) for one in pieces)
        source, reference, result = self.rewritten("net.noise", cut), self.out("model.pth"), self.out("model.pth")
        self.cairn("verify", source)
        self.cairn("consolidate", self.folder / "one" / "plain", reference)
        self.cairn("consolidate", source, result)
        self.assertEqual(file_bytes(result), file_bytes(reference))

    def rewritten(self, name, edit, descriptors=None):
        """The compressed directory with another stored item; its file holds that item alone."""
        source, target = self.folder / "one" / "zstd", self.out("damaged")
        target.mkdir()
        for one in source.iterdir():
            (target / one.name).write_bytes(one.read_bytes())
        metadata = pickle.loads((source / ".metadata").read_bytes())
        index, place = next((key, value) for key, value in metadata.storage_data.items() if key.fqn == name)
        with open(source / place.relative_path, "rb") as file:
            file.seek(place.offset)
            item = edit(file.read(place.length))
        (target / "edited.distcp").write_bytes(b"front" + item)
        metadata.storage_data[index] = type(place)("edited.distcp", 5, len(item), descriptors or place.transform_descriptors)
        (target / ".metadata").write_bytes(pickle.dumps(metadata, 4))
        return target

    def refused(self, words, name, edit, descriptors=None, where=True):
        source = self.rewritten(name, edit, descriptors)
        for ranks in (1, 2):
            result = self.out("model.pth")
            text = self.cairn("consolidate", source, result, ranks=ranks, status=1).stderr
            self.assertRegex(text, words)
            if where:
                self.assertRegex(text, rf"'{name}'.* in edited\.distcp at byte 5")
            self.assertFalse(result.exists())
        verified = self.cairn("verify", source, status=1)
        self.assertRegex(verified.stdout + verified.stderr, words)

    def test_streams_that_are_damaged(self):
        def expanded(item):
            return zstandard.ZstdDecompressor().stream_reader(item).read()

        def compress(content, **options):
            return zstandard.ZstdCompressor(**options).compress(content)

        def flipped(item):
            content = bytearray(expanded(item))
            content[len(content) // 2] ^= 1
            return compress(bytes(content))

        for name in ("net.noise", "net.small", "shared.pair"):
            with self.subTest(name=name):
                self.refused("not complete", name, lambda item: item[:-5])
                self.refused("not complete", name, lambda item: b"")
                self.refused("come 7 bytes that are none", name, lambda item: item + b"garbage")
                self.refused("28 b5 2f fd", name, lambda item: b"PK\3\4" + item[4:])
        self.refused("zip|archive|end|corrupt", "net.noise", lambda item: compress(expanded(item)[:-100]))
        self.refused("CRC-32", "net.noise", flipped)
        self.refused("expand to more than", "net.small", lambda item: compress(bytes(64 << 20)))
        self.refused("expand to more than", "step", lambda item: compress(bytes(1 << 30)))
        large = zstandard.ZstdCompressionParameters.from_level(3, window_log=25)
        self.refused("window of more than 8 MiB", "net.zeros",
                     lambda item: compress_in_pieces(expanded(item), large))

    def test_other_transforms_are_refused_by_name(self):
        for descriptors in (["stream.lz4/1"], ["stream.zstd/2"], ["stream.zstd/1", "stream.zstd/1"]):
            self.refused("stored with a transform", "net.small", lambda item: item, descriptors, where=False)


def compress_in_pieces(content, parameters):
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return compressor.compress(content) + compressor.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for option in ("cairn", "env", "load-job"):
        parser.add_argument("--" + option)
    OPTIONS, rest = parser.parse_known_args(namespace=OPTIONS)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
