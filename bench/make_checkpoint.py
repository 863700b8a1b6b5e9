# SPDX-License-Identifier: BSD-3-Clause
"""Writes a checkpoint with torch. Needs torch; the other scripts start this one.

    make_checkpoint.py dim0|columns FOLDER RANKS BYTES   bfloat16 and float32 as FSDP shards them: by rows, or by columns; saved by RANKS gloo ranks
    make_checkpoint.py lightning FOLDER RANKS BYTES      dim0 with Lightning's meta.pt beside it
    make_checkpoint.py pth FILE BYTES                    the same as one torch file
    make_checkpoint.py safetensors FILE BYTES            the same as one safetensors file
    make_checkpoint.py ema FOLDER RANKS BYTES            float32 by rows, half of it net.*, half net_ema.*, names flat
    make_checkpoint.py small FOLDER COUNT                COUNT tensors of 4 KiB
    make_checkpoint.py tiny FOLDER                       two tensors and two objects
    make_checkpoint.py objects FOLDER BYTES              one object of so many bytes beside a tensor
    make_checkpoint.py tall|wide|grid|many FOLDER CHUNKS a .metadata of so many chunks, its shards sparse: one tensor cut by rows, by columns,
                                                         by both; 1024 tensors cut by rows
"""
import gc
import os
import pathlib
import pickle
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

COLUMNS = 4096
LAYER = (("weight", torch.bfloat16, 8192), ("moment", torch.float32, 2048), ("norm", torch.float32, 1))
ITEM_BYTES = 1408  # What torch.save makes of the smallest tensors.
FILES = 8


def layers(size):
    """-> (name, dtype, rows) until so many bytes are used."""
    layer = 0
    while size > 0:
        for name, dtype, most in LAYER:
            rows = max(1, min(most, size // (COLUMNS * dtype.itemsize)))
            yield f"layers.{layer}.{name}", dtype, rows
            size -= rows * COLUMNS * dtype.itemsize
        layer += 1


def save_sharded(rank, world, dim, folder, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}.store", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    state = {}
    for name, dtype, rows in layers(size):
        shape, local = [rows, COLUMNS], [rows, COLUMNS]
        most = -(-shape[dim] // world)
        local[dim] = max(0, min(most, shape[dim] - rank * most))
        part = torch.randn(local).to(dtype)
        state[name] = DTensor.from_local(part, mesh, [Shard(dim)], run_check=False, shape=torch.Size(shape), stride=(COLUMNS, 1))
    dcp.save({"model": state, "step": 1}, checkpoint_id=folder)
    dist.destroy_process_group()


def torch_file(file, size):
    torch.save({"model": {name: torch.randn(rows, COLUMNS).to(dtype) for name, dtype, rows in layers(int(size))}, "step": 1}, file)


def safetensors_file(file, size):
    from safetensors.torch import save_file

    save_file({name: torch.randn(rows, COLUMNS).to(dtype) for name, dtype, rows in layers(int(size))}, file, metadata={"format": "pt"})


def save_ema(rank, world, _dim, folder, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}.store", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    count = 16
    rows = max(1, size // (2 * count * COLUMNS * 4 * world))
    state = {f"{part}.layers.{i}.weight": DTensor.from_local(torch.randn(rows, COLUMNS), mesh, [Shard(0)])
             for part in ("net", "net_ema") for i in range(count)}
    dcp.save(state, checkpoint_id=folder)
    dist.destroy_process_group()


def sharded(dim, folder, ranks, size):
    save = save_ema if dim is None else save_sharded
    torch.multiprocessing.start_processes(save, (int(ranks), dim, folder, int(size)), nprocs=int(ranks), start_method="fork")
    pathlib.Path(folder + ".store").unlink(missing_ok=True)


def save_alone(state, folder):
    dcp.save(state, checkpoint_id=folder, no_dist=True)


def small(folder, count):
    save_alone({f"layers.{i}.weight": torch.full((1024,), i % 7.0) for i in range(int(count))}, folder)


def tiny(folder):
    save_alone({"model": {"weight": torch.ones(5, 3), "bias": torch.zeros(3)}, "step": 7, "note": "text"}, folder)


def objects(folder, size):
    save_alone({"model": {"weight": torch.ones(5, 3)}, "reader": os.urandom(int(size))}, folder)


def chunks_of(rows, columns, sizes):
    return [torch.Size((i * sizes[0], j * sizes[1])) for i in range(rows) for j in range(columns)]


def structure(kind, folder, count):
    from torch.distributed.checkpoint.filesystem import _StorageInfo
    from torch.distributed.checkpoint.metadata import (ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties,
                                                       TensorStorageMetadata)

    gc.disable()  # Nothing here is a cycle, and a million objects are made.
    count, sizes = int(count), torch.Size((4, 8))
    side = max(1, int(count**0.5))
    tensors, rows, columns = {"tall": (1, count, 1), "wide": (1, 1, count), "grid": (1, side, side),
                              "many": (min(1024, count), max(1, count // 1024), 1)}[kind]
    shape = torch.Size((rows * sizes[0], columns * sizes[1]))
    state, places, paths, ends = {}, {}, {}, [0] * FILES
    for t in range(tensors):
        name = f"layers.{t}.weight"
        offsets = chunks_of(rows, columns, sizes)
        state[name] = TensorStorageMetadata(TensorProperties(dtype=torch.float32), shape, [ChunkStorageMetadata(o, sizes) for o in offsets])
        paths[name] = ("layers", str(t), "weight")
        for i, offset in enumerate(offsets):
            file = i % FILES
            places[MetadataIndex(name, offset, i)] = _StorageInfo(f"__{file}_0.distcp", ends[file], ITEM_BYTES)
            ends[file] += ITEM_BYTES
    target = pathlib.Path(folder)
    target.mkdir(parents=True)
    with open(target / ".metadata", "wb") as stream:
        pickle.dump(Metadata(state, paths, places, StorageMeta()), stream)
    for file, end in enumerate(ends):
        with open(target / f"__{file}_0.distcp", "wb") as stream:
            stream.truncate(end)


def main(kind, folder, *sizes):
    if kind in ("dim0", "columns", "ema", "lightning"):
        sharded({"dim0": 0, "columns": 1, "ema": None, "lightning": 0}[kind], folder, *sizes)
        if kind == "lightning":
            torch.save({"epoch": 1, "global_step": 100, "loops": {"state": {}}, "callbacks": {}}, os.path.join(folder, "meta.pt"))
    elif kind == "pth":
        torch_file(folder, *sizes)
    elif kind == "safetensors":
        safetensors_file(folder, *sizes)
    elif kind in ("small", "tiny", "objects"):
        globals()[kind](folder, *sizes)
    else:
        structure(kind, folder, *sizes)


if __name__ == "__main__":
    main(*sys.argv[1:])
