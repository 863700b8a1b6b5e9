# SPDX-License-Identifier: BSD-3-Clause
"""Folders written by the libraries whose kind they are: Megatron Core's torch_dist and Accelerate's FSDP parent.

    run_frameworks.py --cairn CAIRN --env ENV.SH

Megatron Core saves on 2 ranks; Cairn verifies, consolidates (the same bytes on 1, 2, 3, 4, 8 ranks) and reshards, and Megatron Core loads
what was resharded on 1, 2 and 4 ranks. Accelerate's own functions save the model and the optimizer of FSDP2 on 2 ranks; Cairn's files
hold what the model and the optimizer held. Both libraries ask for a GPU only to wait for it: those calls are replaced.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402

OPTIONS = argparse.Namespace()
COUNTS = (1, 2, 3, 4, 8)
RANKS = 2
COMMON = {"iteration": 25, "args": {"hidden": 6}, "checkpoint_version": 3.0}


def begin(rank, ranks, store):
    torch.cuda.synchronize = lambda *_: None
    torch.cuda.current_device = lambda: "cpu"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)


def end():
    dist.barrier()
    dist.destroy_process_group()


# --- Megatron Core


def weight():
    return torch.arange(48.0).reshape(8, 6)


def bias():
    return torch.arange(8).to(torch.bfloat16)


def rows(rank, ranks):
    return slice(rank * 8 // ranks, (rank + 1) * 8 // ranks)


def megatron_state(rank, ranks, filled):
    from megatron.core.dist_checkpointing.mapping import ShardedObject, ShardedTensor
    def cut(key, tensor):
        own = tensor[rows(rank, ranks)].clone()
        return ShardedTensor.from_rank_offsets(key, own if filled else torch.zeros_like(own), (0, rank, ranks))
    whole = bias() if filled else torch.zeros(8, dtype=torch.bfloat16)
    state = {"model": {"weight": cut("model.weight", weight()), "bias": ShardedTensor.from_rank_offsets("model.bias", whole, replica_id=rank)},
             "optimizer": {"exp_avg": cut("optimizer.exp_avg", weight() * 2)}}
    if ranks == RANKS:
        state["model"]["extra"] = ShardedObject("model._extra_state", {"fp8": [1, 2, rank]} if filled else None, (ranks,), (rank,))
    if filled:
        state["optimizer"]["lr"] = 0.1
        state |= COMMON
    return state


def save_megatron(rank, ranks, directory, store):
    begin(rank, ranks, store)
    from megatron.core import dist_checkpointing
    dist_checkpointing.save(megatron_state(rank, ranks, True), directory)
    end()


def load_megatron(rank, ranks, directory, store):
    begin(rank, ranks, store)
    from megatron.core import dist_checkpointing
    got, own = dist_checkpointing.load(megatron_state(rank, ranks, False), directory), rows(rank, ranks)
    assert torch.equal(got["model"]["weight"], weight()[own]), got
    assert torch.equal(got["model"]["bias"], bias()), got
    assert torch.equal(got["optimizer"]["exp_avg"], (weight() * 2)[own]), got
    assert got["optimizer"]["lr"] == 0.1 and {key: got[key] for key in COMMON} == COMMON, got
    if ranks == RANKS:
        assert got["model"]["extra"] == {"fp8": [1, 2, rank]}, got
    end()


# --- Accelerate


def save_accelerate(rank, ranks, directory, store):
    begin(rank, ranks, store)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    from accelerate import FullyShardedDataParallelPlugin, PartialState
    from accelerate.utils import fsdp_utils
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    PartialState(cpu=True)
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, state_dict_type="SHARDED_STATE_DICT", cpu_ram_efficient_loading=False)
    accelerator = types.SimpleNamespace(process_index=rank, is_main_process=rank == 0, wait_for_everyone=dist.barrier, is_fsdp2=True,
                                        num_processes=ranks, unwrap_model=lambda model: model)
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 3))
    fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model(torch.ones(2, 6)).sum().backward()
    optimizer.step()
    fsdp_utils.save_fsdp_model(plugin, accelerator, model, directory)
    fsdp_utils.save_fsdp_optimizer(plugin, accelerator, optimizer, model, directory)
    held = get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if rank == 0:
        torch.save(held, f"{directory}.held")
    end()


class Frameworks(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="cairn-frameworks-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.jobs = 0

    def spawn(self, job, directory, ranks=RANKS):
        self.jobs += 1
        multiprocessing.spawn(job, (ranks, str(directory), str(self.folder / f"store{self.jobs}")), nprocs=ranks)

    def cairn(self, *words, ranks=1):
        launcher = [OPTIONS.env, "mpirun", "-n", str(ranks)] if ranks > 1 else []
        done = subprocess.run([*launcher, OPTIONS.cairn, *map(str, words)], capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}")
        return done

    def consolidated(self, source, safe=True):
        target, alone = self.folder / "whole.pth", None
        for ranks in COUNTS:
            self.cairn("consolidate", source, target, "--overwrite", ranks=ranks)
            alone = alone or target.read_bytes()
            self.assertTrue(target.read_bytes() == alone, f"{ranks} ranks: other bytes than one")
        return torch.load(target, weights_only=safe)

    def assert_same(self, got, held):
        self.assertEqual(type(got), type(held))
        if isinstance(held, dict):
            self.assertEqual(set(got), set(held))
        if isinstance(held, torch.Tensor):
            self.assertEqual((got.dtype, got.shape), (held.dtype, held.shape))
            self.assertTrue(torch.equal(got, held))
        elif isinstance(held, (dict, list)):
            for key in held if isinstance(held, dict) else range(len(held)):
                self.assert_same(got[key], held[key])
        else:
            self.assertEqual(got, held)

    def test_megatron_core(self):
        saved = self.folder / "iter_0000025"
        saved.mkdir()
        self.spawn(save_megatron, saved)
        self.assertTrue((saved / "common.pt").is_file() and (saved / "metadata.json").is_file())
        self.cairn("verify", saved)
        got = self.consolidated(saved, safe=False)
        self.assert_same({key: got[key] for key in COMMON}, COMMON)
        self.assert_same(got["model.weight"], weight())
        self.assert_same(got["model.bias"], bias())
        self.assert_same(got["optimizer.exp_avg"], weight() * 2)
        self.assertEqual(got["optimizer"], {"lr": 0.1})
        laid_out = self.folder / "for3"
        self.cairn("reshard", saved, laid_out, "--ranks", 3, ranks=3)
        self.cairn("verify", laid_out)
        for ranks in (1, 2, 4):
            self.spawn(load_megatron, laid_out, ranks)

    def test_accelerate(self):
        parent = self.folder / "checkpoint-10"
        parent.mkdir()
        self.spawn(save_accelerate, parent)
        model, optimizer = torch.load(f"{parent}.held", weights_only=False)
        self.assertIn("pytorch_model_fsdp_0", self.cairn("ls", parent).stderr)
        self.cairn("verify", parent)
        self.assert_same(self.consolidated(parent), {"model": model})
        self.assert_same(self.consolidated(parent / "optimizer_0"), {"optimizer": optimizer})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cairn", required=True)
    parser.add_argument("--env", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
