# SPDX-License-Identifier: BSD-3-Clause
"""A training state with EMA, saved by torch on gloo ranks: selection, names, casts and several outputs against torch's own result.

    run_rules.py --cairn PROGRAM --env WRAPPER_FOR_MPIRUN
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

WORLD = 3


def full(seed, shape, dtype):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    values.view(-1)[:4] = torch.tensor([float("nan"), float("inf"), 1e-42, 3.4e38], dtype=torch.float64)
    return values.to(dtype)


def tensors():
    layers = {"blocks.0.weight": ((700, 512), torch.float32, 0), "blocks.1.weight": ((130, 900), torch.bfloat16, 1),
              "head.bias": ((77,), torch.float32, 0), "big": ((1000, 1500), torch.float32, 0)}
    out = {}
    for prefix in ("net", "net_ema"):
        for seed, (name, (shape, dtype, dim)) in enumerate(layers.items()):
            out[f"{prefix}.{name}"] = (full(seed + len(prefix), shape, dtype), dim)
        out[f"{prefix}.steps"] = (torch.arange(5), None)
    return out


def save(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}.store", rank=rank, world_size=WORLD)
    mesh = init_device_mesh("cpu", (WORLD,))
    state = {}
    for name, (value, dim) in tensors().items():
        if dim is None:
            state[name] = value
            continue
        parts = list(torch.chunk(value, WORLD, dim)) + [value.narrow(dim, 0, 0)] * WORLD
        state[name] = DTensor.from_local(parts[rank].contiguous(), mesh, [Shard(dim)], run_check=False, shape=value.shape,
                                         stride=value.stride())
    dcp.save({"model": state, "step": 7}, checkpoint_id=folder)
    dcp.save(state, checkpoint_id=folder + "_flat")
    dist.destroy_process_group()


def to_bfloat16(value):
    """As torch, but every NaN with one bit pattern: torch's own depends on its vector width."""
    out = value.bfloat16()
    out.view(torch.int16)[out.isnan()] = 0x7fc0
    return out


def same(found, expected, where):
    assert list(found) == list(expected), f"{where}: {list(found)} found, {list(expected)} expected"
    for name, value in expected.items():
        if not isinstance(value, torch.Tensor):
            assert found[name] == value, (where, name)
            continue
        assert found[name].dtype == value.dtype and found[name].shape == value.shape, (where, name)
        assert torch.equal(found[name].nan_to_num(7.0), value.nan_to_num(7.0)), f"{where}: {name} has other values"
        assert torch.equal(found[name].isnan(), value.isnan()), (where, name)


def load(path):
    return torch.load(path, weights_only=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cairn", required=True)
    parser.add_argument("--env", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = str(pathlib.Path(folder) / "state")
        mp.start_processes(save, (source,), nprocs=WORLD, start_method="fork")
        check(arguments, pathlib.Path(folder), source)


def check(arguments, folder, source):
    def cairn(*options, ranks=0, status=0):
        launcher = [arguments.env, "mpirun", "-n", str(ranks)] if ranks else []
        done = subprocess.run([*launcher, arguments.cairn, "consolidate", *options, "--no-sync", "--json"], capture_output=True, text=True)
        assert done.returncode == status, (options, done.returncode, done.stderr)
        return json.loads(done.stdout)

    flat = source + "_flat"
    dcp_to_torch_save(flat, folder / "reference.pth")
    net = load(folder / "reference.pth")
    same({name: net[name] for name in tensors()}, {name: value for name, (value, _) in tensors().items()}, "what torch saved")
    ema = {"net." + name.removeprefix("net_ema."): value for name, value in net.items() if name.startswith("net_ema.")}
    half = {name: to_bfloat16(value) if value.dtype == torch.float32 else value for name, value in ema.items()}

    plain = folder / "plain" / "model.pth"
    cairn(flat, str(plain))
    for ranks in (0, 1, 2, 3, 4):
        out = folder / f"ema{ranks}"
        report = cairn(flat, str(out / "model.pth"), "--ema", ranks=ranks)
        assert len(report["outputs"]) == 3
        assert (out / "model.pth").read_bytes() == plain.read_bytes(), f"{ranks} ranks: --ema changes the full file"
        same(load(out / "model.pth"), net, "full")
        same(load(out / "model_ema_fp32.pth"), ema, f"ema fp32, {ranks} ranks")
        same(load(out / "model_ema_bf16.pth"), half, f"ema bf16, {ranks} ranks")
        for name in ("model_ema_fp32.pth", "model_ema_bf16.pth"):
            assert (out / name).read_bytes() == (folder / "ema0" / name).read_bytes(), f"{name} depends on the ranks"
            subprocess.run([arguments.cairn, "verify", "--strict", out / name], check=True, capture_output=True)
    once = cairn(flat, str(folder / "once.pth"))
    assert report["read_bytes"] < once["read_bytes"] * 1.05, (report["read_bytes"], once["read_bytes"])

    # torch.save of the same dict is the same file
    for name, state in (("model_ema_fp32.pth", ema), ("model_ema_bf16.pth", half)):
        torch.save(state, folder / name)
        assert (folder / name).read_bytes() == (folder / "ema0" / name).read_bytes(), f"{name}: not torch's bytes"

    cairn(source, str(folder / "picked.pth"), "--select", "model.net.*", "--exclude", "*.bias", "--strip-prefix", "model", "--rename",
          "net=backbone", "--cast", "float16", "--cast", "*.big=keep")
    picked = {name.replace("net.", "backbone.", 1): value if name.endswith("big") or value.dtype == torch.int64 else value.half()
              for name, value in net.items() if name.startswith("net.") and not name.endswith("bias")}
    same(load(folder / "picked.pth"), picked, "picked")

    two = cairn(source, str(folder / "two.pth"), "--select", "model.net.*", "--output",
                f"{folder}/other.pth:select=model.net_ema.*,select=step,cast=*.weight=bfloat16", ranks=2)
    assert [output["objects"] for output in two["outputs"]] == [0, 1]
    same(load(folder / "two.pth")["model"], {name: value for name, value in net.items() if name.startswith("net.")}, "two")
    other = load(folder / "other.pth")
    assert other["step"] == 7
    same(other["model"], {name: value.bfloat16() if name.endswith("weight") else value for name, value in net.items()
                          if name.startswith("net_ema.")}, "other")

    names = folder / "names.tsv"
    names.write_text("".join(f"{name}\tx{i}\n" for i, name in enumerate(net)))
    cairn(flat, str(folder / "mapped.pth"), "--map", str(names))
    same(load(folder / "mapped.pth"), {f"x{i}": value for i, value in enumerate(net.values())}, "mapped")

    for options in (["--select", "nothing.*"], ["--strip-prefix", "absent"], ["--cast", "*.steps=float16"], ["--rename", "net_ema=net"]):
        cairn(flat, str(folder / "refused.pth"), *options, status=1)
        assert not (folder / "refused.pth").exists()
    cairn(flat, str(folder / "refused.pth"), "--cast", "int8", status=2)
    cairn(flat, str(folder / "refused.pth"), "--output", f"{folder}/refused.pth:unwrap", status=2)
    print("rules: all as torch has it")


if __name__ == "__main__":
    sys.exit(main())
