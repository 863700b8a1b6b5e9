# SPDX-License-Identifier: BSD-3-Clause
"""Folders that are more than one DCP directory, or another form of it, written by torch.

    run_layouts.py --cairn CAIRN --env ENV.SH

One metadata file a rank (use_collectives=False, 3 ranks of gloo); Megatron's torch_dist; a training tree with all components of its
iteration in one file; torchtitan's steps; Accelerate's parent. Each becomes one torch file, the same on 1, 2, 3, 4 and 8 ranks, and
torch.load gives what was saved.
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

OPTIONS = argparse.Namespace()
COUNTS = (1, 2, 3, 4, 8)
RANKS = 3


def iota(*shape, dtype=torch.float32):
    return torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)


def save_without_collectives(rank, directory):
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    dist.init_process_group("gloo", init_method=f"file://{directory}.store", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    place = functools.partial(distribute_tensor, device_mesh=mesh)
    state = {"net": {"rows": place(iota(7, 3), placements=[Shard(0)]), "columns": place(iota(4, 8, dtype=torch.bfloat16), placements=[Shard(1)]),
                     "whole": place(iota(5, dtype=torch.int64), placements=[Replicate()])},
             "step": 7, "own": {f"rank_{rank}": torch.full((2,), float(rank))}, "groups": [{"lr": 0.5, "w": iota(2)}]}
    dcp.save(state, checkpoint_id=directory, use_collectives=False)
    dist.destroy_process_group()


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and a == b


def by_sorted_keys(value):
    if isinstance(value, dict):
        return {key: by_sorted_keys(value[key]) for key in sorted(value)}
    return [by_sorted_keys(one) for one in value] if isinstance(value, list) else value


class Layouts(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="cairn-layouts-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def cairn(self, *words, ranks=1, status=0):
        command = [OPTIONS.cairn, *map(str, words)]
        if ranks > 1:
            command = [OPTIONS.env, "mpirun", "-n", str(ranks), *command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, status, f"{words}: {done.stderr}")
        return done

    def consolidated(self, source, *words, counts=COUNTS):
        """-> the state, and what the first run said."""
        written, said = set(), []
        for ranks in counts:
            out = self.folder / f"out{ranks}" / "whole.pth"
            said.append(self.cairn("consolidate", source, out, "--no-sync", "--overwrite", *words, ranks=ranks).stderr)
            written.add(out.read_bytes())
        self.assertEqual(len(written), 1)
        return torch.load(out, weights_only=False), said[0]

    def test_one_metadata_file_a_rank(self):
        directory = self.folder / "ckpt"
        multiprocessing.spawn(save_without_collectives, (str(directory),), nprocs=RANKS)
        self.assertFalse((directory / ".metadata").exists())
        found, said = self.consolidated(directory)
        expected = {"net": {"rows": iota(7, 3), "columns": iota(4, 8, dtype=torch.bfloat16), "whole": iota(5, dtype=torch.int64)}, "step": 7,
                    "own": {f"rank_{rank}": torch.full((2,), float(rank)) for rank in range(RANKS)}, "groups": [{"lr": 0.5, "w": iota(2)}]}
        self.assertTrue(equal(by_sorted_keys(expected), by_sorted_keys(found)), found)
        self.assertIn("objects are in the metadata of several ranks", said)
        self.assertIn("7 tensors", self.cairn("verify", directory).stdout)
        self.cairn("reshard", directory, self.folder / "anew", "--ranks", 2, "--no-sync", ranks=2)
        state = {"net.rows": torch.zeros(7, 3), "own.rank_2": torch.zeros(2)}
        dcp.load(state, checkpoint_id=self.folder / "anew", no_dist=True)
        self.assertTrue(equal(state, {"net.rows": iota(7, 3), "own.rank_2": torch.full((2,), 2.0)}))
        (directory / "__1.metadata").unlink()
        self.assertIn("__1.metadata: the file is missing", self.cairn("verify", directory, status=1).stderr)

    def megatron(self):
        directory = self.folder / "iter_0000100"
        shards = {"model.decoder.layers.mlp.weight": iota(4, 6), "optimizer.state.exp_avg.decoder.weight": iota(24), "rng_state/shard_0_1": [1, 2]}
        dcp.save(shards, checkpoint_id=directory, no_dist=True)
        common = {"args": argparse.Namespace(hidden=8), "checkpoint_version": 3.0, "iteration": 100, "optimizer": {"param_groups": [{"lr": 0.1}]}}
        torch.save(common, directory / "common.pt")
        (directory / "metadata.json").write_text(json.dumps({"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch"}))
        return directory, shards, common

    def test_megatron(self):
        directory, shards, common = self.megatron()
        found, said = self.consolidated(directory)
        self.assertTrue(equal(shards | common, found), found)
        self.assertIn("argparse.Namespace", said)
        self.assertEqual(json.loads(self.cairn("ls", "--json", directory).stdout)["format"], "megatron")
        self.cairn("verify", directory)
        self.cairn("reshard", directory, self.folder / "anew", "--ranks", 2)
        self.assertEqual(sorted(p.name for p in (self.folder / "anew").iterdir()), [".metadata", "__0_0.distcp", "__1_0.distcp", "common.pt", "metadata.json"])
        self.assertTrue(equal(found, self.consolidated(self.folder / "anew", counts=(1,))[0]))
        torch.save(common | {"rng_state/shard_0_1": 3}, directory / "common.pt")
        done = self.cairn("consolidate", directory, self.folder / "two.pth", status=1)
        self.assertIn("'rng_state/shard_0_1' is in the shards and in the file beside them", done.stderr)
        self.assertFalse((self.folder / "two.pth").exists())

    def tree(self):
        parts = {"model": {"net.w": iota(4, 3), "net_ema.w": 2 * iota(4, 3)}, "optim_discriminator": {"state": {"w": {"step": torch.tensor(3.0)}}},
                 "optim_net": {"state": {"net.w": {"exp_avg": iota(4, 3, dtype=torch.bfloat16)}}, "param_groups": [{"lr": 0.1, "w": iota(1)}]},
                 "scheduler_net": {"last_epoch": 25}, "trainer": {"iteration": 25}}
        iteration = self.folder / "run" / "checkpoints" / "iter_000000025"
        for name, state in parts.items():
            dcp.save(state, checkpoint_id=iteration / name, no_dist=True)
        (iteration.parent / "latest_checkpoint.txt").write_text("iter_000000025\n")
        return iteration, parts

    def test_all_components_of_an_iteration(self):
        iteration, parts = self.tree()
        for source in (self.folder / "run", iteration):
            found, said = self.consolidated(source, "--whole-iteration", counts=COUNTS if source == iteration else (2,))
            self.assertTrue(equal(parts, found), found)
            self.assertEqual("all of" in said, source != iteration, said)
        self.cairn("convert", "--whole-iteration", iteration, self.folder / "dcp", "--ranks", 3, "--no-sync", ranks=2)
        self.assertTrue(equal(parts, self.consolidated(self.folder / "dcp", counts=(1,))[0]))
        self.cairn("consolidate", "--whole-iteration", iteration / "model", self.folder / "no.pth", status=1)
        for name in parts:  # any component alone
            self.assertTrue(equal(parts[name], self.consolidated(iteration / name, counts=(1,))[0]))
        (iteration / "trainer" / ".metadata").unlink()
        done = self.cairn("consolidate", "--whole-iteration", iteration, self.folder / "no.pth", status=1)
        self.assertIn(f"{iteration}/trainer has shards", done.stderr)

    def test_steps_and_parents(self):
        state = {"w": iota(4, 3), "step": 3}
        for name in ("step-1000", "step-200"):
            dcp.save(state, checkpoint_id=self.folder / "titan" / name, no_dist=True)
        self.assertTrue(equal(state, self.consolidated(self.folder / "titan" / "step-200", counts=(1, 2))[0]))
        done = self.cairn("consolidate", self.folder / "titan", self.folder / "no.pth", status=1)
        self.assertRegex(done.stderr, "pass one of .*step-1000.*step-200")
        parent = self.folder / "checkpoint-500"
        dcp.save(state, checkpoint_id=parent / "pytorch_model_fsdp_0", no_dist=True)
        dcp.save({"state": {"w": iota(2)}}, checkpoint_id=parent / "optimizer_0", no_dist=True)
        found, said = self.consolidated(parent, counts=(1, 3))
        self.assertTrue(equal(state, found))
        self.assertIn("optimizer_0", said)
        self.assertTrue(equal({"state": {"w": iota(2)}}, self.consolidated(parent / "optimizer_0", counts=(1,))[0]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for option in ("cairn", "env"):
        parser.add_argument(f"--{option}", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
