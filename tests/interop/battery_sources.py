# SPDX-License-Identifier: BSD-3-Clause
"""The battery's sources, each written by its format's own library. Those of several ranks by as many processes of gloo, all in one launch.

A writer makes a checkpoint in a folder of its own and returns what should be read from there.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import traceback

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from battery_states import PACKED, flat_tensors, iota, objects, tensors, whole

RANKS = 3


@dataclasses.dataclass
class Source:
    name: str
    path: pathlib.Path
    state: dict        # as a torch file has it, in any order
    form: str          # that `ls --json` tells
    options: tuple = ()
    kind: str = "dcp"  # what it goes back to: dcp, torch, safetensors, safetensors shards, folder


# ---- of several ranks --------------------------------------------------------------------------------------------------------

def distributed(state, mesh):
    """Tensors cut by rows and by columns in turn, every third one whole; of values alone each rank has the same."""
    seen = 0

    def part(value):
        nonlocal seen
        if isinstance(value, dict):
            return {key: part(one) for key, one in value.items()}
        if isinstance(value, list):
            return [part(one) for one in value]
        if not isinstance(value, torch.Tensor):
            return value
        seen += 1
        return distribute_tensor(value, mesh, [placement_of(value, seen)], src_data_rank=None)

    return part(state)


def placement_of(tensor, number):
    cannot_fill_nothing = tensor.numel() == 0 and tensor.dtype == getattr(torch, PACKED)
    if tensor.dim() == 0 or number % 3 == 0 or cannot_fill_nothing:
        return Replicate()
    return Shard(number % 2 if tensor.dim() > 1 else 0)


def save_all(rank, folder, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    for make in (dcp_of_ranks, lightning, megatron, tree, accelerate, titan, hugging_face, hugging_face_consolidated, rank_metadata):
        for path, state, options in make_saves(make, folder):
            dcp.save(distributed(state, mesh), **({"checkpoint_id": path} if "storage_writer" not in options else {}), **options)
    dist.destroy_process_group()


def make_saves(make, folder):
    """-> (directory, state, arguments of dcp.save) of each directory of a source."""
    for part, state, options in make.saves():
        path = folder / make.__name__ / part
        writer = options.pop("writer", None)
        yield path, state, options | ({"storage_writer": writer(path)} if writer else {})


def launch(folder):
    """The interpreter is forked: torch is there already."""
    children = []
    for rank in range(RANKS):
        child = os.fork()
        if child == 0:
            try:
                save_all(rank, folder, folder / "store")
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    states = [os.waitpid(child, 0)[1] for child in children]
    if any(states):
        raise RuntimeError(f"dcp.save on {RANKS} ranks: {states}")


def saves(*made):
    """The directories of a source, lazily: (path below it, state, arguments of dcp.save)."""
    def register(make):
        make.saves = lambda: [(part, build(), dict(options)) for part, build, options in made]
        return make
    return register


@saves((".", whole, {}))
def dcp_of_ranks(folder):
    return Source("dcp of 3 ranks", folder, whole(), "dcp")


ADAM = {"state": {"w": {"step": torch.tensor(3.0), "exp_avg": iota(7, 5)}, "lazy": {}}, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99), "params": ["w"]}]}


@saves((".", lambda: {"optimizer_1": ADAM, "state_dict": flat_tensors(tensors()), "optimizer_0": ADAM, "optimizer_abc": {"w": iota(3)}}, {}))
def lightning(folder):
    beside = {"epoch": 3, "loops": {"ready": 1, "tensors": (iota(3), "x")}, "hyper_parameters": {"width": 4, "names": ["a"]}}
    torch.save(beside, folder / "meta.pt")
    state = {"state_dict": flat_tensors(tensors()), "optimizer_states": [ADAM, ADAM], "optimizer_abc": {"w": iota(3)}, **beside}
    return Source("Lightning", folder, state, "lightning", kind="folder")


@saves((".", lambda: flat_tensors(tensors()) | {"optimizer.state.exp_avg": iota(24), "rng_state/shard_0_1": [1, 2]}, {}))
def megatron(folder):
    common = {"args": argparse.Namespace(hidden=8), "checkpoint_version": 3.0, "iteration": 100, "optimizer": {"param_groups": [{"lr": 0.1}]}}
    torch.save(common, folder / "common.pt")
    (folder / "metadata.json").write_text(json.dumps({"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch"}))
    state = flat_tensors(tensors()) | {"optimizer.state.exp_avg": iota(24), "rng_state/shard_0_1": [1, 2]} | common
    return Source("Megatron torch_dist", folder, state, "megatron", kind="folder")


def tree_model():
    return {f"{part}.{name}": value for part in ("net", "net_ema") for name, value in flat_tensors(tensors()).items()}


LOWEST = {"planner": DefaultSavePlanner(dedup_save_to_lowest_rank=True)}
IN_TREE = "checkpoints/iter_000000025"


@saves((f"{IN_TREE}/model", tree_model, LOWEST), (f"{IN_TREE}/optim_net", lambda: ADAM, LOWEST), (f"{IN_TREE}/scheduler_net", lambda: {"last_epoch": 25}, LOWEST),
       (f"{IN_TREE}/trainer", lambda: {"iteration": 25, "grad_scaler": {}}, LOWEST))
def tree(folder):
    (folder / IN_TREE).parent.joinpath("latest_checkpoint.txt").write_text(pathlib.Path(IN_TREE).name)
    return Source("training tree", folder, tree_model(), "tree")


def tree_whole(folder):
    state = {"model": tree_model(), "optim_net": ADAM, "scheduler_net": {"last_epoch": 25}, "trainer": {"iteration": 25}}
    return Source("whole iteration", folder / IN_TREE, state, "tree", ("--whole-iteration",))


@saves(("pytorch_model_fsdp_0", lambda: {"model": flat_tensors(tensors())}, {}), ("optimizer_0", lambda: {"optimizer": ADAM}, {}))
def accelerate(folder):
    (folder / "trainer_state.json").write_text("{}")
    (folder / "scheduler.pt").write_bytes(b"")
    return Source("Accelerate", folder, {"model": flat_tensors(tensors())}, "accelerate")


@saves(("step-1000", lambda: flat_tensors(tensors()) | {"optimizer": ADAM, "train_state": objects()}, {}))
def titan(folder):
    return Source("torchtitan", folder / "step-1000", flat_tensors(tensors()) | {"optimizer": ADAM, "train_state": objects()}, "dcp")


@saves((".", lambda: tensors(of_safetensors=True), {"writer": lambda path: HuggingFaceStorageWriter(path, save_distributed=True)}))
def hugging_face(folder):
    return Source("Hugging Face's DCP format", folder, flat_tensors(tensors(of_safetensors=True)), "hf_dcp")


def of_common_dtypes():
    """All that torch's consolidation takes: it asks torch.finfo for the size of an element."""
    return {group: {name: tensor for name, tensor in below.items() if tensor.dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}
            for group, below in tensors(of_safetensors=True).items()}


@saves((".", of_common_dtypes, {"writer": lambda path: HuggingFaceStorageWriter(path, save_distributed=True, enable_consolidation=True)}))
def hugging_face_consolidated(folder):
    """Beside the ranks' shards, which lie in `sharded`, the whole tensors, which torch's writer makes of them: those without dimensions it
    leaves zeros, so that the file says what is to be read."""
    return Source("Hugging Face's DCP format, consolidated", folder, load_file(folder / "model-00001-of-00001.safetensors"), "safetensors",
                  kind="safetensors shards")


def hugging_face_sharded(folder):
    return Source("Hugging Face's DCP format, beside its whole", folder / "sharded", flat_tensors(of_common_dtypes()), "hf_dcp")


@saves((".", whole, {"use_collectives": False}))
def rank_metadata(folder):
    return Source("one metadata file a rank", folder, whole(), "dcp")


# ---- of one process ----------------------------------------------------------------------------------------------------------

def dcp_of_one(folder):
    dcp.save(whole(), checkpoint_id=folder, no_dist=True)
    return Source("dcp of one rank", folder, whole(), "dcp")


def torch_file(folder):
    base = iota(4000)
    state = whole() | {"views": {"transposed": iota(64, 96).t(), "part": base[100:3000], "strided": base[::3], "tied": base, "kept": base,
                                 "parameter": torch.nn.Parameter(iota(4, 3)), "expanded": torch.ones(5, 1).expand(5, 7)}, "empty": {}}
    folder.mkdir()
    torch.save(state, folder / "state.pth")
    return Source("torch file", folder / "state.pth", state, "torch", kind="torch")


def safetensors_file(folder):
    folder.mkdir()
    state = flat_tensors(tensors(of_safetensors=True))
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return Source("safetensors file", folder / "model.safetensors", state, "safetensors", kind="safetensors")


def safetensors_shards(folder):
    """As torch's writer makes them for rank 0 alone, which names the files and writes the index."""
    state = tensors(of_safetensors=True)
    files = {name: 1 + i % 4 for i, name in enumerate(flat_tensors(state))}
    dcp.save(state, storage_writer=HuggingFaceStorageWriter(folder, files), no_dist=True)
    return Source("safetensors shards", folder, flat_tensors(state), "safetensors", kind="safetensors shards")


def hugging_face_of_one(folder):
    dcp.save(tensors(of_safetensors=True), storage_writer=HuggingFaceStorageWriter(folder, save_distributed=True), no_dist=True)
    return Source("Hugging Face's DCP format of one rank", folder, flat_tensors(tensors(of_safetensors=True)), "hf_dcp")


ONE_PROCESS = (dcp_of_one, torch_file, safetensors_file, safetensors_shards, hugging_face_of_one)
SEVERAL_RANKS = (dcp_of_ranks, lightning, megatron, tree, accelerate, titan, hugging_face, hugging_face_consolidated, rank_metadata)


def write_all(folder):
    launch(folder)
    for make in ONE_PROCESS:
        yield make(folder / make.__name__)
    for make in SEVERAL_RANKS:
        yield make(folder / make.__name__)
    yield tree_whole(folder / tree.__name__)
    yield hugging_face_sharded(folder / hugging_face_consolidated.__name__)
