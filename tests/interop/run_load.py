# SPDX-License-Identifier: BSD-3-Clause
"""Directories that torch wrote, loaded by Cairn on other numbers of ranks (mpi_tests/load_job.cpp).

    run_load.py --program LOAD_JOB --env ENV.SH --golden DIR [--only NAME …]

Every golden directory, and a model and its optimizer under FSDP2 on 4 ranks of gloo, come as rows, columns and replicas: each rank's
bytes are those that torch reads from the same directory, and each object is equal to torch's. What FSDP2 saved, Cairn loads and saves again,
and FSDP2 takes it up on yet another number of ranks. A torch file and safetensors files come out as
torch's own reading.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from torch.distributed.checkpoint import FileSystemReader  # noqa: E402
from torch.distributed.checkpoint.metadata import TensorStorageMetadata  # noqa: E402

ROTATION = (2, 3, 1, 4, 8)
LAYOUTS = ("rows", "columns", "replicated", "all")
FSDP_RANKS = 4


def fsdp_job(rank, ranks, store, seed):
    """-> (model, optimizer) under FSDP2 after two steps."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(50, 70), torch.nn.ReLU(), torch.nn.Linear(70, 9), torch.nn.LayerNorm(9)]
    model = torch.nn.Sequential(*layers)
    mesh = init_device_mesh("cpu", (ranks,))
    for layer in (layers[0], layers[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01 * seed)
    for _ in range(2):
        model(torch.randn(6, 50)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def save_fsdp(rank, directory):
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, moments = get_state_dict(*fsdp_job(rank, FSDP_RANKS, f"{directory}.store", 7))
    dcp.save({"model": weights, "optim": moments, "step": 2, f"loader.rank_{rank}": {"seen": 10 * rank}}, checkpoint_id=directory)
    torch.distributed.destroy_process_group()


def resume_fsdp(rank, ranks, directory, out):
    """Another model and optimizer take up what is in the directory, as a training job does; rank 0 writes what they have then."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

    model, optimizer = fsdp_job(rank, ranks, f"{out}.store", 3)
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optim": moments, "step": 0}
    dcp.load(state, checkpoint_id=directory)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
    whole = get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if rank == 0:
        torch.save({"model": whole[0], "optim": whole[1], "step": state["step"]}, out)
    torch.distributed.destroy_process_group()


def by_torch(folder):
    """-> ([(name, tensor)] in the order of the metadata, {name: object})."""
    metadata = FileSystemReader(folder).read_metadata()
    state = {}
    for name, entry in metadata.state_dict_metadata.items():
        is_tensor = isinstance(entry, TensorStorageMetadata)
        state[name] = torch.empty(entry.size, dtype=entry.properties.dtype) if is_tensor else None
    dcp.load(state, storage_reader=FileSystemReader(folder), planner=dcp.DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False), no_dist=True)
    tensors = [(n, state[n]) for n, e in metadata.state_dict_metadata.items() if isinstance(e, TensorStorageMetadata)]
    names = {n for n, _ in tensors}
    return tensors, {n: v for n, v in state.items() if n not in names}


def raw(tensor):
    return tensor.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def local_part(tensor, layout, rank, ranks):
    if layout in ("replicated", "all") or tensor.dim() == 0:
        return tensor
    dim = 1 if layout == "columns" and tensor.dim() > 1 else 0
    step = -(-tensor.shape[dim] // ranks)
    begin = min(rank * step, tensor.shape[dim])
    return tensor.narrow(dim, begin, min(step, tensor.shape[dim] - begin))


def is_dropped(name, ranks):
    """An entry of a rank that there is no longer; load_job asks to keep the others."""
    return name.startswith("loader.rank_") and int(name.split(".")[1].removeprefix("rank_")) >= ranks


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and raw(a) == raw(b)
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if type(a).__eq__ is object.__eq__:
        return type(a) is type(b) and equal(vars(a), vars(b)) if hasattr(a, "__dict__") else type(a) is type(b)
    return type(a) is type(b) and (repr(a) == repr(b) if isinstance(a, float) else bool((a == b) is True or repr(a) == repr(b)))


class Suite:
    def __init__(self, options):
        self.options, self.failures = options, 0

    def check(self, condition, text):
        if not condition:
            self.failures += 1
            print(f"  FAILED {text}", flush=True)

    def run(self, folder, ranks, layouts=LAYOUTS):
        with tempfile.TemporaryDirectory(prefix="cairn-load-") as out:
            out = pathlib.Path(out)
            for layout in layouts:
                (out / layout).mkdir()
            command = [self.options.env, "mpirun", "-n", str(ranks), self.options.program, folder, out, *layouts]
            done = subprocess.run(command, capture_output=True, timeout=300, stdin=subprocess.DEVNULL)
            if done.returncode != 0:
                return self.check(False, f"{folder.name} on {ranks}: {done.stderr.decode(errors='replace')[:1500]}")
            for layout in layouts:
                self.compare(folder.name, out / layout, layout, ranks)

    def compare(self, name, out, layout, ranks):
        where = f"{name} as {layout} on {ranks}"
        tensors, objects = self.expected
        for rank in range(ranks):
            self.compare_tensors(f"{where}, rank {rank}", tensors, layout, rank, ranks, (out / f"{rank}.bin").read_bytes())
        kept = {name: None if layout != "all" and is_dropped(name, ranks) else value for name, value in objects.items()}
        self.compare_objects(where, kept, out)

    def compare_tensors(self, where, tensors, layout, rank, ranks, found):
        at = 0
        for name, tensor in tensors:
            expected = raw(local_part(tensor, layout, rank, ranks))
            self.check(found[at:at + len(expected)] == expected, f"{where}: {name!r}")
            at += len(expected)
        self.check(at == len(found), f"{where}: {len(found)} bytes, expected {at}")

    def compare_objects(self, where, objects, out):
        names = (out / "objects").read_bytes().decode().split("\n")[:-1]
        self.check(sorted(names) == sorted(objects), f"{where}: objects {names}")
        for i, name in enumerate(names):
            found = torch.load(out / f"object.{i}", weights_only=False)
            self.check(equal(objects[name], found), f"{where}: object {name!r} differs")

    def run_case(self, folder, rank_counts):
        self.expected = by_torch(folder)
        for ranks in rank_counts:
            self.run(folder, ranks)

    def run_fsdp_again(self, fsdp, scratch):
        """What Cairn loads and saves again on 3 ranks is for FSDP2 what torch saved."""
        out = pathlib.Path(scratch)
        (out / "saved").mkdir()
        subprocess.run([self.options.env, "mpirun", "-n", "3", self.options.program, fsdp, out, "saved"], check=True, timeout=300,
                       stdin=subprocess.DEVNULL)
        taken_up = {}
        for directory in (fsdp, out / "saved" / "checkpoint"):
            taken_up[directory.name] = out / f"{directory.name}.pth"
            multiprocessing.start_processes(resume_fsdp, (2, str(directory), str(taken_up[directory.name])), nprocs=2, start_method="spawn")
        expected, found = (torch.load(file) for file in taken_up.values())
        self.check(found["step"] == 2 and equal(expected, found), "FSDP2 on 2 ranks takes up something else from what Cairn saved on 3")

    def run_torch_file(self, scratch):
        """Several objects, and such with tensors in them, which share storages with others."""
        base = torch.arange(40.0)
        pair, mixed = (base[10:20].reshape(2, 5), base.to(torch.bfloat16)), [(base[30:], 3), {"x": None}]
        state = {"w": base, "pair": pair, "step": 3, "groups": [{"lr": 0.1, "betas": (0.9, 0.999)}, (base[:7], "x")], "mixed": mixed, "name": "grün"}
        path = pathlib.Path(scratch) / "state.pth"
        torch.save(state, path)
        self.expected = [("w", base)], {"pair": pair, "step": 3, "groups.0.lr": 0.1, "groups.0.betas": (0.9, 0.999), "groups.1": (base[:7], "x"),
                                        "mixed.0": mixed[0], "mixed.1.x": None, "name": "grün"}
        for ranks in (1, 3):
            self.run(path, ranks, ["all"])


    def run_safetensors(self, scratch):
        """One file, and shards that an index names. Tensors come in the order of the headers: by dtype, then by name."""
        state = {"z": torch.arange(40.0).reshape(8, 5), "a": torch.arange(21, dtype=torch.bfloat16).reshape(7, 3), "m": torch.arange(6.0),
                 "scalar": torch.tensor(7), "none": torch.empty(0, 3)}
        order = ("scalar", "m", "none", "z", "a")
        path = pathlib.Path(scratch) / "state.safetensors"
        save_file(state, path)
        self.expected = [(name, state[name]) for name in order], {}
        for ranks in (1, 3):
            self.run(path, ranks)
        folder = pathlib.Path(scratch) / "shards"
        folder.mkdir()
        for name in order:
            save_file({name: state[name]}, folder / f"{name}.safetensors")
        (folder / "stale.safetensors").write_bytes(b"what")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {name: f"{name}.safetensors" for name in order}}))
        self.expected = [(name, state[name]) for name in sorted(order)], {}
        for ranks in (1, 2, 4):
            self.run(folder, ranks)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--env", required=True)
    parser.add_argument("--golden", required=True, type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    torch.set_num_threads(1)
    suite = Suite(options)
    names = [case["name"] for case in json.loads((options.golden / "manifest.json").read_text())
             if all(ord(c) >= 32 for c in case["name"])]
    with tempfile.TemporaryDirectory(prefix="cairn-fsdp-") as scratch:
        fsdp = pathlib.Path(scratch) / "fsdp2"
        multiprocessing.start_processes(save_fsdp, (str(fsdp),), nprocs=FSDP_RANKS, start_method="spawn")
        for i, folder in enumerate([fsdp] + [options.golden / name for name in names]):
            if options.only and folder.name not in options.only:
                continue
            before = suite.failures
            suite.run_case(folder, ROTATION if folder == fsdp else [ROTATION[i % len(ROTATION)]])
            print(f"{'ok' if suite.failures == before else 'FAILED':6} {folder.name}", flush=True)
        if not options.only:
            suite.run_fsdp_again(fsdp, scratch)
        suite.run_torch_file(scratch)
        suite.run_safetensors(scratch)
    print(f"{suite.failures} failures")
    return 1 if suite.failures else 0


if __name__ == "__main__":
    sys.exit(main())
