# SPDX-License-Identifier: BSD-3-Clause
"""The counterparts, each a program of its own as a user would write it.

    theirs.py consolidate SOURCE TARGET   torch's dcp_to_torch_save
    theirs.py lightning SOURCE TARGET     python -m lightning.pytorch.utilities.consolidate_checkpoint
    theirs.py to_dcp SOURCE TARGET        torch's torch_save_to_dcp
    theirs.py to_safetensors SOURCE FOLDER BYTES   dcp.load into memory, then save_file of each shard of so many bytes, and the index
    theirs.py ema SOURCE FOLDER           the same into model.pth, which is loaded for the two EMA files: as it is done after PiD training
    theirs.py load SOURCE                 pickle.load of .metadata; prints the seconds of that call alone
    theirs.py testzip SOURCE              zipfile.testzip of every item that .metadata names: the CRCs and nothing else
"""
import io
import pathlib
import pickle
import sys
import time
import zipfile


def consolidate(source, target):
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    dcp_to_torch_save(source, target)


def lightning(source, target):
    import runpy

    sys.argv[1:] = [source, "--output_file", target]
    runpy.run_module("lightning.pytorch.utilities.consolidate_checkpoint", run_name="__main__")


def to_dcp(source, target):
    from torch.distributed.checkpoint.format_utils import torch_save_to_dcp

    torch_save_to_dcp(source, target)


def to_safetensors(source, folder, most):
    import json

    import torch
    import torch.distributed.checkpoint as dcp
    from safetensors.torch import save_file

    state = {name: torch.empty(tensor.size, dtype=tensor.properties.dtype)
             for name, tensor in dcp.FileSystemReader(source).read_metadata().state_dict_metadata.items() if hasattr(tensor, "size")}
    dcp.load(state, checkpoint_id=source, no_dist=True)
    shards, size = [{}], 0
    for name, tensor in state.items():
        if size + tensor.nbytes > int(most) and shards[-1]:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    folder, weights = pathlib.Path(folder), {}
    folder.mkdir(exist_ok=True)
    for i, shard in enumerate(shards, 1):
        name = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
        save_file(shard, folder / name, metadata={"format": "pt"})
        weights |= dict.fromkeys(shard, name)
    index = {"metadata": {"total_size": sum(t.nbytes for t in state.values())}, "weight_map": weights}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")


def ema(source, folder):
    import torch

    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    consolidate(source, folder / "model.pth")
    state = torch.load(folder / "model.pth")
    state = {"net." + name.removeprefix("net_ema."): tensor for name, tensor in state.items() if name.startswith("net_ema.")}
    torch.save(state, folder / "model_ema_fp32.pth")
    state = {name: tensor.bfloat16() if tensor.dtype == torch.float32 else tensor for name, tensor in state.items()}
    torch.save(state, folder / "model_ema_bf16.pth")


def load(source):
    import torch.distributed.checkpoint  # noqa: F401

    with open(pathlib.Path(source) / ".metadata", "rb") as stream:
        started = time.monotonic()
        pickle.load(stream)
        print(time.monotonic() - started)


def testzip(source):
    import torch.distributed.checkpoint  # noqa: F401 - .metadata is a pickle of its classes

    folder = pathlib.Path(source)
    with open(folder / ".metadata", "rb") as stream:
        items = pickle.load(stream).storage_data.values()
    for item in items:
        with open(folder / item.relative_path, "rb") as stream:
            stream.seek(item.offset)
            with zipfile.ZipFile(io.BytesIO(stream.read(item.length))) as archive:
                if archive.testzip() is not None:
                    sys.exit(f"{item.relative_path} at {item.offset}: a bad CRC")


if __name__ == "__main__":
    {"consolidate": consolidate, "ema": ema, "lightning": lightning, "to_dcp": to_dcp, "to_safetensors": to_safetensors, "load": load, "testzip": testzip}[sys.argv[1]](*sys.argv[2:])
