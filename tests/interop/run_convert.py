# SPDX-License-Identifier: BSD-3-Clause
"""Torch files as a source, DCP directories as a result: cairn convert and cairn reshard beside torch.

    run_convert.py --cairn PROGRAM --golden DIR [--env launch/env.sh] [--only NAME …]

Torch files: what ls says is what torch's own flattening gives; converted for 1 to 5 ranks by 1 to 4 MPI ranks and several threads
the directories are the same bytes, torch loads them, and they convert back to a file that torch reads as what it wrote.
Golden directories (saved by torch on 1 to 4 ranks): resharded (every other one for a single rank, the others for one rank more) and back,
they are strictly equal to torch's own consolidation.
Of each kind some are loaded by torch on 2 and 4 ranks of gloo, as DTensors.
"""
import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402
from torch.distributed.checkpoint._nested_dict import flatten_state_dict  # noqa: E402
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save  # noqa: E402

from compare import Comparison, compare_files, same_bytes  # noqa: E402
from golden_cases import DTYPES, of_dtype  # noqa: E402

TIMEOUT_S = 120
# With storages inside objects, mixed sizes or many entries: these go through every number of MPI ranks.
ALL_RANK_COUNTS = ("nested", "dtypes", "windows")


def numbered(*shape, dtype=torch.float32):
    return torch.arange(torch.Size(shape).numel(), dtype=torch.int64).reshape(shape).to(dtype)


# ---- torch files ------------------------------------------------------------------------------------------------------------

def nested():
    base = numbered(4000)
    adam = {0: {"step": torch.tensor(3.0), "exp_avg": numbered(40, 30)}, 1: {"step": torch.tensor(5.0), "exp_avg": numbered(30)}}
    defaults = collections.defaultdict(dict)
    defaults["a"] = {"b": numbered(3)}
    return {
        "model": collections.OrderedDict(weight=torch.nn.Parameter(numbered(40, 30)), bias=torch.nn.Parameter(numbered(30)),
                                         transposed=numbered(64, 96).t(), view=base[100:3000], strided=base[::3], whole=base,
                                         expanded=torch.ones(5, 1).expand(5, 7), tied=base),
        "optimizer": {"state": adam, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99), "params": [0, 1]}]},
        "tuple": (numbered(6), "x"), "shared": (base, base[:10]), "list": [numbered(2), {"y": numbered(3)}], "plain": [1, 2.5, "s"],
        "defaults": defaults, "none": None, "step": 7, "empty": torch.empty(0, 4), "scalar": torch.tensor(2.5), "": numbered(2),
        "ä ü\n": numbered(3), "empty list": [], "size": torch.Size([3, 4]), "dtype": torch.bfloat16,
    }


def dtypes():
    return {name: of_dtype(name, 6, 10) for name in DTYPES}


def windows():
    """Tensors around a window of a megabyte, and larger."""
    state = {f"t{n}": numbered(n, dtype=torch.uint8) for n in (1, 63, 65, 65535, 65536, 65537, 1048575, 1048577)}
    return state | {"wide": numbered(3, 700_000, dtype=torch.int16), "tall": numbered(300_001, 5), "cube": numbered(70, 80, 90)}


def many():
    return {"block": {str(i): {"w": numbered(8, 16), "b": numbered(8)} for i in range(200)}}


STATES = (nested, dtypes, windows, many)


class Suite:
    def __init__(self, options, scratch):
        self.options = options
        self.scratch = scratch
        self.failures = 0
        self.to_load = []  # directories, each with a torch file of what they hold

    def check(self, condition, text):
        if not condition:
            self.failures += 1
            print(f"  FAILED {text}", flush=True)
        return bool(condition)

    def cairn(self, *arguments, ranks=0, cwd=None):
        command = [self.options.cairn, *map(str, arguments)]
        if ranks:
            command = [self.options.env, "mpirun", "-n", str(ranks), *command]
        result = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL, cwd=cwd)
        shown = " ".join(map(str, command))
        self.check(result.returncode == 0, f"{shown}: status {result.returncode}\n    {result.stderr.decode()[:1500]}")
        return result

    # ---- torch files

    def run_state(self, build):
        name = build.__name__
        folder = self.scratch / name
        folder.mkdir()
        state = build()
        path = folder / "state.pth"
        torch.save(state, path)
        self.check_listing(state, path)
        for ranks, dim in ((1, 0), (3, 0), (5, 1)):
            self.check_shards(name, folder, path, ranks, dim)
        self.cairn("convert", path, folder / "again.pth")
        self.same(torch.load(folder / "again.pth", weights_only=False), unwrapped(torch.load(path, weights_only=False)), f"{name}: pth to pth")

    def check_listing(self, state, path):
        listed = json.loads(self.cairn("ls", "--json", path).stdout)
        flat, _ = flatten_state_dict(state)
        tensors = [(k, str(v.dtype).removeprefix("torch."), list(v.shape)) for k, v in flat.items() if isinstance(v, torch.Tensor)]
        self.check(listed["format"] == "torch", f"format {listed['format']}")
        have = [(t["name"], t["dtype"], t["shape"]) for t in listed["tensors"]]
        self.check(have == tensors, f"ls: {have}, expected {tensors}")
        objects = [k for k, v in flat.items() if not isinstance(v, torch.Tensor)]
        self.check([o["name"] for o in listed["objects"]] == objects, f"ls: objects {objects}")

    def check_shards(self, name, folder, path, ranks, dim):
        runs = [(0, 1), (0, 3)] + ([(n, 1 + n % 2) for n in (1, 2, 3, 4)] if name in ALL_RANK_COUNTS else [(2, 1)])
        made = []
        for mpi, threads in runs:
            parent = folder / f"r{ranks}.np{mpi}.t{threads}"
            parent.mkdir()
            self.cairn("convert", path, "dcp", "--ranks", ranks, "--dim", dim, "--threads", threads, "--no-sync", ranks=mpi,
                       cwd=parent)
            made.append(parent / "dcp")
        for other in made[1:]:
            self.check(same_folders(made[0], other), f"{other.parent.name} gives the bytes of one thread")
        self.cairn("verify", made[0])
        reference = unwrapped(as_dcp(torch.load(path, weights_only=False)))
        self.check_torch_load(made[0], path, f"{name} for {ranks} ranks")
        self.cairn("convert", made[0], made[0].parent / "back.pth")
        self.same(torch.load(made[0].parent / "back.pth", weights_only=False), reference, f"{name} for {ranks} ranks and back")
        self.to_load.append((str(made[0]), str(path)))
        dcp_to_torch_save(made[0], made[0].parent / "torch.pth")
        self.same(torch.load(made[0].parent / "torch.pth", weights_only=False), reference, f"{name}: dcp_to_torch_save")

    def check_torch_load(self, folder, path, where):
        """dcp.load into a state of the same form, filled with other values."""
        flat, _ = flatten_state_dict(torch.load(path, weights_only=False))
        wanted = {k: torch.zeros_like(v.detach().contiguous()) for k, v in flat.items() if isinstance(v, torch.Tensor)}
        dcp.load(wanted, checkpoint_id=folder, no_dist=True)
        self.same(wanted, {k: flat[k].detach() for k in wanted}, f"{where}: dcp.load")

    # ---- golden directories

    def run_golden(self, case, mpi, single):
        name = case["name"]
        source = self.options.golden / name
        parent = self.scratch / f"golden.{name}"
        parent.mkdir()
        for ranks, dim in ((1 if single else case.get("world", 1) + 1, 0), (3, 1)):
            target = parent / f"r{ranks}"
            self.cairn("reshard", source, target, "--ranks", ranks, "--dim", dim, "--no-sync", ranks=mpi)
            self.cairn("verify", "--quiet", target)
            back = parent / "model.pth"
            self.cairn("consolidate", target, back, "--overwrite", "--no-sync")
            faults, _ = compare_files(back, self.options.golden / f"{name}.ref" / "model.pth", case["safe"])
            for fault in faults:
                self.check(False, f"{name} for {ranks} ranks, cut along {dim}: {fault}")
        self.to_load.append((str(parent / "r3"), str(self.options.golden / f"{name}.ref" / "model.pth")))
        self.cairn("reshard", source, parent / "again", "--ranks", 3, "--dim", 1, "--threads", 1)
        self.check(same_folders(parent / "again", parent / "r3", but=".metadata"), f"{name}: other ranks and threads")

    # ---- by torch, on several ranks

    def load_all_on_ranks(self):
        for world in (2, 4):
            try:
                multiprocessing.spawn(load_on_ranks, (world, str(self.scratch / f"store{world}"), self.to_load), nprocs=world)
            except Exception as error:  # of a rank, with its traceback
                self.check(False, f"dcp.load on {world} ranks: {error}")

    def same(self, ours, theirs, where):
        comparison = Comparison()
        comparison.same(ours, theirs, "")
        for fault in comparison.faults:
            self.check(False, f"{where}: {fault}")


def load_on_ranks(rank, world, store, jobs):
    """dcp.load of each directory, by rows and by columns; what arrives is compared with this rank's part."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    for directory, path in jobs:
        flat, _ = flatten_state_dict(torch.load(path, weights_only=False))
        tensors = {k: v.detach().contiguous() for k, v in flat.items() if isinstance(v, torch.Tensor) and v.layout == torch.strided}
        for dim in (0, 1):
            parts = {k: part_of(v, dim, rank, world) for k, v in tensors.items()}
            wanted = {k: as_dtensor(v, parts[k], dim, mesh) for k, v in tensors.items()}
            dcp.load(wanted, checkpoint_id=directory)
            for name, part in parts.items():
                found = wanted[name].to_local() if is_cut(tensors[name], dim) else wanted[name]
                if found.shape != part.shape or not torch.equal(raw(found), raw(part)):
                    raise AssertionError(f"{directory}: {name!r} on rank {rank} of {world}, dimension {dim}, differs")
    dist.destroy_process_group()


def is_cut(tensor, dim):
    return tensor.dim() > dim and tensor.numel() > 0


def part_of(tensor, dim, rank, world):
    if not is_cut(tensor, dim):
        return tensor
    parts = tensor.chunk(world, dim)
    return (parts[rank] if rank < len(parts) else tensor.narrow(dim, 0, 0)).contiguous()


def as_dtensor(tensor, part, dim, mesh):
    from torch.distributed.tensor import DTensor, Shard
    local = torch.zeros_like(part) if part.numel() else part.clone()  # not every dtype can fill nothing
    if not is_cut(tensor, dim):
        return local
    return DTensor.from_local(local, mesh, [Shard(dim)], run_check=False, shape=tensor.shape, stride=tensor.stride())


def raw(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)


def as_dcp(value):
    """What DCP makes of the values of a state: dicts are plain, with str keys."""
    if isinstance(value, dict):
        return {str(k): as_dcp(v) for k, v in value.items()}
    if isinstance(value, list):
        return [as_dcp(v) for v in value]
    return value


def unwrapped(value):
    """Tensors outside tuples become plain and contiguous, with storages of their own; dicts become plain."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone(memory_format=torch.contiguous_format)
    if isinstance(value, dict):
        return {k: unwrapped(v) for k, v in value.items()}
    if isinstance(value, list):
        return [unwrapped(v) for v in value]
    return value


def same_folders(a, b, but=None):
    names = sorted(p.name for p in a.iterdir())
    if names != sorted(p.name for p in b.iterdir()):
        return False
    return all(name == but or same_bytes(a / name, b / name) for name in names)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cairn", required=True)
    parser.add_argument("--golden", required=True, type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--env", default=str(HERE.parents[1] / "launch" / "env.sh"))
    parser.add_argument("--only", nargs="*")
    return parser.parse_args()


def main():
    options = parse()
    torch.set_num_threads(1)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="cairn-convert-"))
    suite = Suite(options, scratch)
    cases = json.loads((options.golden / "manifest.json").read_text())
    jobs = [(build.__name__, lambda build=build: suite.run_state(build)) for build in STATES]
    jobs += [(case["name"], lambda case=case, i=i: suite.run_golden(case, (0, 2, 0, 3)[i % 4], i // 2 % 2 == 0)) for i, case in enumerate(cases)]
    jobs.append(("on several ranks", suite.load_all_on_ranks))
    try:
        for name, job in jobs:
            if options.only and name not in options.only and job != suite.load_all_on_ranks:
                continue
            before = suite.failures
            job()
            print(f"{'ok' if suite.failures == before else 'FAILED':6} {name}", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{suite.failures} failures")
    return 1 if suite.failures else 0


if __name__ == "__main__":
    sys.exit(main())
