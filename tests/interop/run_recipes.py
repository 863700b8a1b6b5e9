# SPDX-License-Identifier: BSD-3-Clause
"""The commands of docs/recipes.md, one after the other, as they stand, in a folder with what they speak of.

    run_recipes.py --cairn CAIRN --recipes docs/recipes.md

Each must succeed, and what some of them make is compared with what was saved.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402


def iota(*shape, dtype=torch.float32):
    return torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)


def save(folder, state):
    dcp.save(state, checkpoint_id=folder, no_dist=True)


WEIGHTS = {"w": iota(40, 30), "b": iota(30)}


def prepare():
    iteration = pathlib.Path("run/checkpoints/iter_000000025")
    save(iteration / "model", {f"{prefix}.{name}": value for prefix in ("net", "net_ema") for name, value in WEIGHTS.items()})
    save(iteration / "optim_net", {"state": {"w": {"exp_avg": iota(40, 30)}}, "param_groups": [{"lr": 0.1, "params": ["w"]}]})
    save(iteration / "trainer", {"iteration": 25})
    (iteration.parent / "latest_checkpoint.txt").write_text("iter_000000025")
    save(pathlib.Path("epoch=1.ckpt"), {"state_dict": WEIGHTS, "optimizer_0": {"state": {"w": {"exp_avg": iota(40, 30)}}, "param_groups": [{"lr": 0.1}]}})
    torch.save({"epoch": 1, "loops": {"ready": 3}}, "epoch=1.ckpt/meta.pt")
    megatron = pathlib.Path("megatron/iter_0000100")
    save(megatron, {"model.w": iota(4, 6), "optimizer.state.exp_avg": iota(24)})
    torch.save({"iteration": 100, "args": argparse.Namespace(hidden=6)}, megatron / "common.pt")
    (megatron / "metadata.json").write_text(json.dumps({"sharded_backend": "torch_dist"}))
    save(pathlib.Path("checkpoint-500/pytorch_model_fsdp_0"), {"model": WEIGHTS})
    save(pathlib.Path("checkpoint-500/optimizer_0"), {"optimizer": {"state": {"w": iota(4)}}})
    save(pathlib.Path("outputs/step-1000"), {"model": WEIGHTS, "step": 1000})
    os.mkdir("hf-sharded")
    for i, rows in enumerate((WEIGHTS["w"][:25], WEIGHTS["w"][25:])):
        sharding = json.dumps({"w": {"saved_offsets": [25 * i, 0]}})
        save_file({"w": rows.contiguous()}, f"hf-sharded/shard-0000{i + 1}-model-00001-of-00001.safetensors",
                  metadata={"DCP_SHARDING_INFO": sharding, "DCP_VERSION": "1.0", "format": "pt"})
    torch.save({"state": {i: {"step": torch.tensor(3.0), "exp_avg": iota(4 + i)} for i in range(2)}, "param_groups": [{"lr": 0.1, "params": [0, 1]}]}, "adam.pth")
    torch.save({"embed.weight": iota(10, 4), "out.head.weight": iota(6, 8), "out.bias": iota(8)}, "pretrained.pth")


def equal(a, b):
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return torch.equal(a, b) and a.dtype == b.dtype if isinstance(a, torch.Tensor) else a == b


def require(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def check(cairn):
    load = lambda name: torch.load(name, weights_only=True)  # noqa: E731
    ema = {f"net.{name}": value for name, value in WEIGHTS.items()}
    require(equal(ema, load("out/model_ema_fp32.pth")), "model_ema_fp32.pth")
    require(equal({name: value.bfloat16() for name, value in ema.items()}, load("out/model_ema_bf16.pth")), "model_ema_bf16.pth")
    require(load("all.pth")["trainer"] == {"iteration": 25} and "param_groups" in load("all.pth")["optim_net"], "all.pth")
    again = {name: torch.zeros_like(value) for name, value in WEIGHTS.items()}
    dcp.load(state := {f"net.{name}": value for name, value in again.items()}, checkpoint_id="again/iter_000000025/model", no_dist=True)
    require(equal({f"net.{name}": value for name, value in WEIGHTS.items()}, state), "again/")
    require(load("optim.pth")["param_groups"] == [{"lr": 0.1, "params": ["w"]}], "optim.pth")
    require(equal({name: value.bfloat16() for name, value in WEIGHTS.items()}, load_file("hub/model.safetensors")), "hub/")
    trainer = load("epoch=1.ckpt.consolidated")
    require(list(trainer) == ["epoch", "loops", "state_dict", "optimizer_states"] and equal(WEIGHTS, trainer["state_dict"]), "epoch=1.ckpt.consolidated")
    require(equal(WEIGHTS, load("weights.pth")), "weights.pth")
    require(pathlib.Path("epoch=1.8ranks.ckpt/meta.pt").is_file(), "epoch=1.8ranks.ckpt")
    require(torch.load("megatron.pth", weights_only=False)["args"] == argparse.Namespace(hidden=6), "megatron.pth")
    require(equal({"w": iota(4, 6)}, load_file("megatron.safetensors")), "megatron.safetensors")
    require(equal({f"model.{name}": value for name, value in WEIGHTS.items()}, load_file("model.safetensors")), "model.safetensors")
    require(equal({"state": {"w": iota(4)}}, load("optimizer.pth")["optimizer"]), "optimizer.pth")
    require(load("titan.pth")["step"] == 1000, "titan.pth")
    require(equal({"w": WEIGHTS["w"]}, load_file("merged.safetensors")), "merged.safetensors")
    require(equal({f"model.{name}": value for name, value in WEIGHTS.items()}, load("from-safetensors.pth")), "from-safetensors.pth")
    states = {name: {"step": torch.tensor(3.0), "exp_avg": iota(4 + i)} for i, name in enumerate(("embed.weight", "out.bias"))}
    require(equal({"state": states, "param_groups": [{"lr": 0.1, "params": [0, 1]}]}, load("adam-by-name.pth")), "adam-by-name.pth")
    flat = {f"state.{name}.{key}": torch.zeros_like(value) for name, state in states.items() for key, value in state.items()}
    dcp.load(flat, checkpoint_id="adam-by-name", no_dist=True)
    require(equal({f"state.{name}.{key}": value for name, state in states.items() for key, value in state.items()}, flat), "adam-by-name/")
    listed = json.loads(subprocess.run([cairn, "ls", "--json", "start"], capture_output=True, check=True).stdout)
    require({one["name"]: one["chunk_count"] for one in listed["tensors"]} == {"embed.weight": 4, "out.head.weight": 4, "out.bias": 1}, "start/")


def main():
    parser = argparse.ArgumentParser()
    for option in ("cairn", "recipes"):
        parser.add_argument(f"--{option}", required=True, type=lambda path: pathlib.Path(path).resolve())
    options = parser.parse_args()
    commands = re.findall(r"^    (\S.*)$", options.recipes.read_text(), re.MULTILINE)
    with tempfile.TemporaryDirectory(prefix="cairn-recipes-") as scratch:
        os.chdir(scratch)
        prepare()
        environment = os.environ | {"PATH": f"{options.cairn.parent}:{os.environ['PATH']}"}
        for command in commands:
            done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
            require(done.returncode == 0, f"{command}: status {done.returncode}, {done.stderr}")
        check(options.cairn)
        os.chdir("/")
    print(len(commands), "commands of", options.recipes.name, "do what they say")


if __name__ == "__main__":
    sys.exit(main())
