# SPDX-License-Identifier: BSD-3-Clause
"""The state dicts of the golden directories.

A case is a function (rank, world) -> state dict, run by every rank of one launch. Values are made by rule (an element is its
linear index, or seeded bytes), so a wrong place shows. `expected` is given where torch's own converter cannot say what is right.
"""
import collections
import dataclasses
import datetime
import functools
import io
import math
import pathlib
from typing import Any, Callable

import numpy
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard

from golden_types import RunNotes, Schedule


@dataclasses.dataclass
class Case:
    name: str
    world: int
    build: Callable[[int, int], dict]
    writer: dict = dataclasses.field(default_factory=dict)   # FileSystemWriter arguments
    planner: dict = dataclasses.field(default_factory=dict)  # DefaultSavePlanner arguments
    safe: bool = True               # opens with weights_only=True
    crc: bool = True                # torch computes CRCs while saving
    alignment: int = 64             # config.save.storage_alignment
    pathlib_id: bool = False        # checkpoint_id is a Path
    no_dist: bool = False
    expected: Callable[[], Any] | None = None


CASES: list[Case] = []


def case(world, **options):
    def register(build):
        CASES.append(Case(build.__name__, world, build, **options))
        return build
    return register


def numbered(*shape, dtype=torch.float32):
    return torch.arange(math.prod(shape), dtype=torch.int64).reshape(shape).to(dtype)


def seeded_bytes(count, seed):
    return torch.randint(0, 256, (count,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def shard(full, mesh, *placements):
    """Every rank holds the whole value and keeps its part: no communication."""
    return distribute_tensor(full, mesh, placements, src_data_rank=None)


def line(world):
    return init_device_mesh("cpu", (world,))


# ---- dtypes -----------------------------------------------------------------------------------------------------------------

DTYPES = """bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 uint16 uint32 uint64 complex32
float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2""".split()
# Not here: bits8, bits1x8 … (torch 2.13's planner cannot size them and refuses the save), int1 … uint7 (no storage of their own).


def of_dtype(name, rows, columns):
    dtype = getattr(torch, name)
    if name == "bool":
        return (seeded_bytes(rows * columns, 5) & 1).bool().reshape(rows, columns)
    raw = seeded_bytes(rows * columns * dtype.itemsize, len(name))
    return raw.reshape(rows, columns * dtype.itemsize).view(dtype)


@case(1)
def dtypes_plain(rank, world):
    return {name: of_dtype(name, 6, 16) for name in DTYPES}


@case(1)
def dtypes_odd_shapes(rank, world):
    """0-dim and 0-size of each."""
    state = {}
    for name in DTYPES:
        state[name] = {"scalar": of_dtype(name, 1, 1)[0, 0].clone(), "none": of_dtype(name, 1, 4)[:0].clone()}
    return state


@case(2)
def dtypes_sharded(rank, world):
    mesh = line(world)
    return {name: shard(of_dtype(name, 7, 16), mesh, Shard(0)) for name in DTYPES}


# ---- layouts over ranks ------------------------------------------------------------------------------------------------------

@case(3)
def uneven_rows(rank, world):
    mesh = line(world)
    return {"w": shard(numbered(10, 7), mesh, Shard(0)), "tail": shard(numbered(4), mesh, Shard(0)),
            "exact": shard(numbered(9, 2), mesh, Shard(0)), "step": 7}


@case(8)
def empty_shards(rank, world):
    mesh = line(world)
    return {"three": shard(numbered(3, 5), mesh, Shard(0)), "one": shard(numbered(1, 4, dtype=torch.bfloat16), mesh, Shard(0)),
            "none": shard(numbered(0, 4), mesh, Shard(0)), "ten": shard(numbered(10, 3), mesh, Shard(0)),
            "columns": shard(numbered(10, 3), mesh, Shard(1))}


@case(4)
def column_shards(rank, world):
    mesh = line(world)
    return {"even": shard(numbered(6, 8), mesh, Shard(1)), "uneven": shard(numbered(5, 7), mesh, Shard(1)),
            "third": shard(numbered(3, 4, 9), mesh, Shard(2)), "middle": shard(numbered(3, 5, 4), mesh, Shard(1)),
            "half": shard(numbered(3, 5, 4, dtype=torch.float16), mesh, Shard(2)), "thin": shard(numbered(10, 2), mesh, Shard(1))}


@case(8)
def mesh_2x4(rank, world):
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("a", "b"))
    return {"rows_columns": shard(numbered(10, 7), mesh, Shard(0), Shard(1)),
            "columns_rows": shard(numbered(10, 7), mesh, Shard(1), Shard(0)),
            "rows_rows": shard(numbered(16, 3), mesh, Shard(0), Shard(0)),
            "hybrid": shard(numbered(10, 7), mesh, Replicate(), Shard(0)),
            "hybrid_columns": shard(numbered(10, 7), mesh, Shard(1), Replicate()),
            "copies": shard(numbered(3, 3), mesh, Replicate(), Replicate()),
            "cube": shard(numbered(5, 6, 7), mesh, Shard(2), Shard(0))}


@case(4)
def mesh_2x2(rank, world):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    return {"rows_columns": shard(numbered(5, 3), mesh, Shard(0), Shard(1)),
            "big": shard(numbered(257, 129), mesh, Shard(0), Shard(1)), "plain": numbered(4)}


@case(8)
def strided_mesh(rank, world):
    """FSDP over tensor parallelism: the inner cut comes first, so a rank's rows lie in strided order."""
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("dp", "tp"))
    state = {}
    for name, rows in (("even", 16), ("uneven", 13), ("short", 3)):
        full = numbered(rows, 5)
        outer = torch.chunk(full, 2, 0)
        part = outer[mesh.get_local_rank("tp")] if mesh.get_local_rank("tp") < len(outer) else full[:0]
        pieces = torch.chunk(part, 4, 0)
        local = pieces[mesh.get_local_rank("dp")] if mesh.get_local_rank("dp") < len(pieces) else full[:0]
        state[name] = DTensor.from_local(local.clone(), mesh, [_StridedShard(0, split_factor=2), Shard(0)], run_check=False,
                                         shape=full.shape, stride=full.stride())
    return state


@case(4)
def replicated(rank, world):
    mesh = line(world)
    return {"dtensor": shard(numbered(5, 5), mesh, Replicate()), "plain": numbered(3, 3), "other": numbered(2), "step": 3,
            "name": "run"}


@case(4)
def per_rank_names(rank, world):
    """Data loader states: one object a rank, and a plain tensor that only one rank has."""
    state = {"loader": {f"rank_{rank}": {"position": rank, "names": ["x", rank]}}}
    if rank == 2:
        state["lonely"] = numbered(2, 2)
    return state


@case(4)
def fsdp_model(rank, world):
    """A few MB in both common dtypes, biases that leave ranks empty, and an optimizer's state."""
    mesh = line(world)
    model = {}
    for layer in range(4):
        model[f"layers.{layer}.weight"] = shard(numbered(513, 257, dtype=torch.bfloat16), mesh, Shard(0))
        model[f"layers.{layer}.bias"] = shard(numbered(3) + layer, mesh, Shard(0))
        model[f"layers.{layer}.norm.weight"] = shard(numbered(257), mesh, Shard(0))
    model["embed.weight"] = shard(numbered(1000, 400), mesh, Shard(0))
    return {"model": model, "step": 12, "config": {"lr": 0.1, "names": ["a", "b"]}}


@case(2)
def optimizer_state(rank, world):
    mesh = line(world)
    names = ["layer.weight", "layer.bias"]
    state = {name: {"step": torch.tensor(5.0), "exp_avg": shard(numbered(6, 2), mesh, Shard(0)),
                    "exp_avg_sq": shard(numbered(6, 2) * 2, mesh, Shard(0))} for name in names}
    groups = [{"params": names, "lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "amsgrad": False, "foreach": None},
              {"params": [], "lr": torch.tensor(0.5), "betas": [0.8, 0.9]}]
    return {"optim": {"state": state, "param_groups": groups}}


@case(2)
def optimizer_by_position(rank, world):
    state = {0: {"exp_avg": numbered(3)}, 1: {"exp_avg": numbered(4)}, 10: {"exp_avg": numbered(1)}}
    return {"optim": {"state": state, "param_groups": [{"lr": 0.1, "params": [0, 1, 10]}]}}


@case(2)
def flat_optimizer(rank, world):
    return {"state.layer.weight.exp_avg": numbered(4, 4), "state.layer.weight.step": torch.tensor(3.0),
            "param_groups.layer.weight.lr": 0.1, "param_groups.layer.weight.betas": (0.9, 0.99)}


# ---- objects and nesting -----------------------------------------------------------------------------------------------------

@case(1)
def plain_objects(rank, world):
    return {"none": None, "true": True, "false": False, "zero": 0, "small": -7, "byte": 255, "short": 65535, "int": 2**31 - 1,
            "int_min": -2**31, "long": 2**31, "big": 2**70 + 1, "negative_big": -2**200, "huge": 10**400, "float": 0.1,
            "nan": float("nan"), "inf": -math.inf, "minus_zero": -0.0, "complex": 1 + 2j, "str": "text", "empty_str": "",
            "unicode": "Ωμέγα \U0001f600", "long_str": "x" * 1000, "bytes": bytes(range(256)), "bytearray": bytearray(b"abc"), "list": [1, "a", None, [2, [3]]], "empty_list": [], "tuple": (1, (2, "b")),
            "empty_tuple": (), "one": (1,), "four": (1, 2, 3, 4), "set": {1, 2, 3}, "empty_set": set(),
            "ordered": [collections.OrderedDict([("b", 1), ("a", 2)])], "dict_in_list": [{"k": 1, 2: "v"}],
            "size": torch.Size([1, 2, 3]), "dtype": torch.bfloat16, "device": torch.device("cpu"), "cuda": torch.device("cuda:3"),
            "shared": (lambda x: [x, x])(["same"]), "counter": [collections.Counter("aab")], "many": list(range(2500)),
            "wide": [{str(i): i for i in range(1001)}]}


@case(1)
def names(rank, world):
    keys = ["a.b", "a b", "a/b", "/abs", "..", "../up", ".lead", "trail.", "ünï", "日本語", "\U0001f600", "tab\there", "new\nline",
            "nul\0", "quote'\"", "back\\slash", "x" * 300, "a..b", "", "CON", "%s", "*", "[x]", "data.pkl", "-dash", " ", "\x7f",
            "é", "e\u0301"]
    state = {key: numbered(2) + i for i, key in enumerate(keys)}
    state["nested"] = {"": numbered(1), "with space": {"x.y": {"z": numbered(2)}}, "ключ": "значение"}
    return state


@case(1)
def nesting(rank, world):
    t = numbered
    return {"list": [t(1), t(2), "x", None, 4], "digits": {"0": t(1), "1": t(2)}, "ints": {0: t(1), 7: t(2)},
            "mixed": {1: {"1": [t(1), {"a": t(2)}]}}, "tuple": (t(2), t(3)), "list_of_lists": [[t(1)], [t(2), [t(3)]]],
            "list_of_tuples": [(t(1), t(2)), t(3)], "objects_only": [1, 2, [3]], "deep": {"a": {"b": {"c": {"d": {"e": t(1)}}}}},
            "ordered": collections.OrderedDict([("z", t(1)), ("a", t(2))]), "empty_list": [], "empty_dict": {}, "empty_tuple": (),
            "none": None, "dict_with_empty": {"x": {}, "y": t(1), "z": []}, "bool_keys": {True: t(1), False: t(2)},
            "none_key": {None: t(1)}, "float_key": {1.5: t(1)}}


@case(1)
def long_list(rank, world):
    return {"l": [numbered(1) + i for i in range(1003)]}


@case(1)
def wide_dicts(rank, world):
    """Around the pickler's batches of 1000."""
    return {str(n): {f"k{i}": i for i in range(n)} for n in (1, 2, 255, 256, 257, 999, 1000, 1001, 2001)}


def hole_expected():
    return {"l": [numbered(1), None, {"a": numbered(2)}], "k": 1}


@case(1, expected=hole_expected)
def list_hole(rank, world):
    """The empty dict in the list is stored nowhere: torch's converter fails on the gap, we leave None."""
    return {"l": [numbered(1), {}, {"a": numbered(2)}], "k": 1}


@case(1)
def parameters(rank, world):
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Conv2d(2, 3, 3))
    for i, parameter in enumerate(model.parameters()):
        parameter.data.copy_(numbered(*parameter.shape) + i)
    state = {"state": model.state_dict(), "live": dict(model.named_parameters())}
    state["frozen"] = torch.nn.Parameter(numbered(2), requires_grad=False)
    state["grad"] = numbered(3).requires_grad_()
    return state


@case(1)
def views(rank, world):
    base = numbered(8, 6)
    images = numbered(2, 3, 4, 5)
    return {"transposed": base.t(), "permuted": images.permute(3, 1, 0, 2), "channels_last": images.to(memory_format=torch.channels_last),
            "sliced": base[2:5], "columns": base[:, 1:4], "stepped": base[::3], "expanded": numbered(1, 6).expand(4, 6),
            "row": base[3], "column": base[:, 2], "offset": numbered(100)[90:], "scalar_view": base[1, 1], "flipped": base.flip(0),
            "diagonal": base.diagonal(), "unfolded": numbered(10).unfold(0, 4, 3), "ones": numbered(1, 5, 1).transpose(0, 2),
            "complex_real": numbered(4, dtype=torch.complex64).real, "base": base, "alias": base}


@case(1)
def shapes(rank, world):
    return {"scalar": torch.tensor(3.5), "scalar_int": torch.tensor(3), "one": numbered(1), "ones": numbered(1, 1, 1, 1, 1, 1, 1),
            "none": torch.empty(0), "none_2d": torch.empty(3, 0), "none_3d": torch.empty(0, 5, 0, dtype=torch.int64),
            "odd": numbered(63, dtype=torch.uint8), "sixtyfour": numbered(64, dtype=torch.uint8),
            "sixtyfive": numbered(65, dtype=torch.uint8), "seven": numbered(2, 1, 3, 1, 2, 2, 3)}


@case(1)
def objects_with_tensors(rank, world):
    t = numbered(6)
    u = numbered(2, 3, dtype=torch.bfloat16)
    return {"pair": (t, t[:2]), "same": (t, t), "list_of_tuple": [(u,), "x"], "strided": (u.t(), u),
            "many": tuple(numbered(3) + i for i in range(20)), "dict": ({"a": t, "b": {"c": u}},), "grad": (t.clone().requires_grad_(),),
            "parameter": (torch.nn.Parameter(numbered(2)),), "float8": (numbered(4).to(torch.float8_e5m2), torch.zeros(2, dtype=torch.uint16)),
            "empty": (torch.empty(0), torch.tensor(1)), "plain": numbered(3)}


@case(1, safe=False)
def unsafe_objects(rank, world):
    return {"numpy_scalar": numpy.float64(1.5), "numpy_array": numpy.arange(6).reshape(2, 3), "numpy_bool": numpy.bool_(True),
            "notes": RunNotes("t", [1.0, 2.0]), "schedule": Schedule(10), "in_list": [Schedule(3), 1], "class": RunNotes,
            "empty_bytes": b"",  # The global `bytes` itself is not on torch's list.
            "w": numbered(3)}


@case(1, safe=False)
def bytes_io(rank, world):
    return {"stream": io.BytesIO(b"payload"), "empty": io.BytesIO(), "w": numbered(2)}


@case(1, safe=False)
def rare_objects(rank, world):
    """What people put beside their tensors: some of it torch's safe loader refuses, all of it is kept."""
    z = torch.complex(numbered(3), numbered(3))
    return {"deque": collections.deque([1, 2]), "default": [collections.defaultdict(list, a=[1])], "frozen": frozenset({1}),
            "slice": slice(1, 2), "range": range(4), "ellipsis": ..., "date": datetime.datetime(2020, 1, 2), "path": pathlib.PurePosixPath("logs/run"),
            "wide_int": 2**5000, "deep": functools.reduce(lambda inner, _: [inner], range(300), 1), "conjugate": (z.conj(),),
            "bits": (numbered(4).view(torch.uint8).view(torch.bits8),), "buffer": (torch.nn.Buffer(numbered(2)),), "w": numbered(2)}


@case(1)
def names_that_are_no_utf8(rank, world):
    """Python decodes odd bytes of file names and command lines to lone surrogates."""
    return {"a\ud800b": numbered(2), "x": {"\udcff": numbered(1)}, "o": "\udc80"}


@case(1)
def deep_nesting(rank, world):
    return {"d": functools.reduce(lambda inner, i: {f"k{i}": inner}, range(300), numbered(1))}


@case(1)
def large_object(rank, world):
    return {"blob": seeded_bytes(3_000_000, 1).numpy().tobytes().hex(), "w": numbered(5)}


# ---- how it was written ------------------------------------------------------------------------------------------------------

def small_model():
    return {"model": {f"layer{i}": {"weight": numbered(5, 3) + i, "bias": numbered(3) - i} for i in range(7)}, "step": 4,
            "notes": ["a", 1], "list": [numbered(2), {"x": numbered(1)}]}


@case(2)
def many_small(rank, world):
    mesh = line(world)
    state = {f"blocks.{i}.w": shard(numbered(4) + i, mesh, Shard(0)) if i % 3 else numbered(i % 7) for i in range(3000)}
    state.update({f"objects.{i}": i for i in range(200)})
    return state


@case(2, writer={"single_file_per_rank": False})
def file_per_item(rank, world):
    return small_model()


@case(2, writer={"thread_count": 2})
def two_threads(rank, world):
    return small_model()


@case(2, writer={"single_file_per_rank": False, "thread_count": 3})
def three_threads_file_per_item(rank, world):
    return small_model()


@case(1, crc=False)
def crc_off(rank, world):
    return small_model()


@case(1, alignment=4096)
def align_4096(rank, world):
    return small_model()


@case(2, planner={"flatten_state_dict": False})
def unflattened(rank, world):
    """No planner data: the flat name is the key."""
    return {"a.b": numbered(3), "plain": numbered(2, 2), "obj": {"x": [1, 2]}, "": numbered(1), "step": 1}


@case(2, pathlib_id=True)
def pathlib_id(rank, world):
    return small_model()


@case(4, planner={"dedup_save_to_lowest_rank": True})
def lowest_rank(rank, world):
    return small_model()


@case(1, no_dist=True)
def no_dist(rank, world):
    return small_model()


@case(1)
def only_objects(rank, world):
    return {"a": 1, "b": "x"}


@case(1)
def nothing(rank, world):
    return {}


@case(4)
def windows(rank, world):
    """Records that span several windows, with odd byte counts around their borders."""
    mesh = line(world)
    mib = 1 << 20
    return {"huge": shard(numbered(5 * mib + 3, dtype=torch.float32), mesh, Shard(0)),
            "below": shard((torch.arange(mib - 1) % 251).to(torch.uint8), mesh, Shard(0)), "at": (torch.arange(mib) % 241).to(torch.uint8),
            "above": (torch.arange(mib + 1) % 239).to(torch.uint8), "columns": shard(numbered(1025, 1023), mesh, Shard(1)),
            "step": 1}
