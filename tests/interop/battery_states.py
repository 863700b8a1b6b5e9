# SPDX-License-Identifier: BSD-3-Clause
"""What every source of the battery holds: each dtype with and without dimensions and elements, uneven shapes, odd names, objects.

Large dtypes hold their linear index; the others, and those with NaNs to lose, bytes by rule.
"""
import torch
from torch.distributed.checkpoint._nested_dict import flatten_state_dict

from golden_cases import DTYPES, of_dtype

SAFETENSORS_LACKS = ("complex128", "complex32")
# Packed two to a byte, whose header says the number of values in the last dimension: without a dimension there is none.
PACKED = "float4_e2m1fn_x2"
NAMES = ("", ".", "..", ".a", "a.", "a.b", "a..b", "a/b", "/a", "../up", " sp ace ", "tab\tline\n", "ä ü 日本 🙂", 'q"\\', "\x7f\x01", "0", "10", "-1",
         "format", "__metadata__", "None", "%s{}", "x" * 300)


def iota(*shape, dtype=torch.float32):
    return torch.arange(torch.Size(shape).numel(), dtype=torch.int64).reshape(shape).to(dtype)


def tensors(of_safetensors=False):
    """Two levels: {group: {name: tensor}}."""
    names = [name for name in DTYPES if not of_safetensors or name not in SAFETENSORS_LACKS]
    return {
        "dtypes": {name: of_dtype(name, 7, 16) for name in names},
        "scalars": {name: of_dtype(name, 1, 1)[0, 0].clone() for name in names if not of_safetensors or name != PACKED},
        "nothing": {name: of_dtype(name, 1, 4)[:0].clone() for name in names},
        "shapes": {"tall": iota(1000, 3), "wide": iota(3, 100_001, dtype=torch.int16), "cube": iota(5, 6, 7), "one": iota(1), "ones": iota(1, 1, 1, 1),
                   "large": iota(5, 99_991), "deep": iota(1, 2, 1, 3, 1, 2, dtype=torch.float64), "no columns": torch.empty(3, 0),
                   "no rows": torch.empty(0, 3, dtype=torch.int16), "nothing": torch.empty(0), "even": iota(6, 6, dtype=torch.bfloat16)},
        "names": {name: iota(2 + i, 3) + i for i, name in enumerate(NAMES)},
    }


def objects():
    shared = iota(6)
    return {"step": 7, "lr": 0.1, "big": 1 << 70, "text": "ä\n", "flag": True, "nan": float("nan"), "none": None, "bytes": b"\0\xff", "list": ["a", 3],
            "betas": (0.9, 0.99), "size": torch.Size([3, 4]), "dtype": torch.bfloat16, "no list": [], "no tuple": (), "storage twice": (shared, shared[:2]),
            "mixed": [iota(3), {"x": iota(2), "y": "z"}], "complex": 1 + 2j}


def whole():
    return tensors() | {"objects": objects()}


def flat_tensors(state):
    """By the names that torch.distributed.checkpoint gives them."""
    return {name: value.detach().contiguous() for name, value in flatten_state_dict(state)[0].items() if isinstance(value, torch.Tensor)}


def flat_objects(state):
    return {name: value for name, value in flatten_state_dict(state)[0].items() if not isinstance(value, torch.Tensor)}


def as_dcp(value):
    """What is left of a state in torch.distributed.checkpoint: plain dicts with str keys, none of them empty; plain tensors."""
    if isinstance(value, dict):
        below = {str(key): as_dcp(one) for key, one in value.items()}
        return {key: one for key, one in below.items() if not isinstance(one, dict) or one}
    if isinstance(value, list):
        return [as_dcp(one) for one in value]
    return plain(value)


def plain(value):
    """Tensors outside tuples become contiguous, with storages of their own."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone(memory_format=torch.contiguous_format)
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def in_order(value):
    """Dicts sorted by their keys: of several ranks' metadata the order is the library's own."""
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value, key=str)}
    return [in_order(one) for one in value] if isinstance(value, list) else value
