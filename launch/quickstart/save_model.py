# SPDX-License-Identifier: BSD-3-Clause
"""save_model.py FOLDER [RANKS]: trains a small sharded model for one step and saves it as a PyTorch job does.

Every rank is a process of a gloo group and owns its shard of each parameter, as FSDP lays them out: DTensors,
bfloat16 blocks and a float32 embedding, AdamW's state, and the plain Python values that a job keeps beside them.
"""

import shutil
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

WIDTH, DEPTH, VOCABULARY = 1024, 3, 8002  # the vocabulary is no multiple of the ranks: uneven shards


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.register_buffer("positions", torch.zeros(2048, dtype=torch.int64))


def sharded_model(mesh):
    with torch.device("meta"):
        model = Model()
        model.blocks.to(torch.bfloat16)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model.to_empty(device="cpu")
    return model


def fill(model, rank):
    """Values that differ on every rank and at every place; a gradient for one step."""
    generator = torch.Generator().manual_seed(1000 + rank)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.to_local().normal_(std=0.02, generator=generator)
            parameter.grad = parameter.detach() * 0.5
        model.positions.copy_(torch.arange(model.positions.numel()))


def job_state(model, optimizer):
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {
        "model": model_state,
        "optimizer": optimizer_state,
        "step": 1,
        "lr": 1.5e-4,
        "betas": (0.9, 0.95),
        "name": "quickstart – 4 ranks",
        "config": {"width": WIDTH, "schedule": {"warmup": [0, 100, 2000], "kind": "cosine"}, "resumed_from": None},
    }


def run_rank(rank, ranks, rendezvous, folder):
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks)
    model = sharded_model(init_device_mesh("cpu", (ranks,)))
    fill(model, rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-4, betas=(0.9, 0.95))
    optimizer.step()
    dcp.save(job_state(model, optimizer), checkpoint_id=folder)
    dist.destroy_process_group()


def main(folder, ranks="4"):
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as meeting:
        arguments = (int(ranks), f"{meeting}/rendezvous", folder)
        # Forked, so that torch is imported once.
        multiprocessing.start_processes(run_rank, arguments, nprocs=int(ranks), start_method="fork")


if __name__ == "__main__":
    main(*sys.argv[1:])
