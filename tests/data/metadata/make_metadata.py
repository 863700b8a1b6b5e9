# SPDX-License-Identifier: BSD-3-Clause
"""Writes the `.metadata` fixtures of this folder and expectations.json. Standard library only; the same bytes each time.

expectations.json: file name -> {"tensors": [{name, dtype, shape, chunks: [{offsets, sizes, file, byte_offset, byte_length}]}],
"objects": [{name, file, byte_offset, byte_length}], "paths": {name: [steps]} or null}, or {"error": [allowed kinds], "says": a
word of the message}.
"""
import json
import pathlib
import pickle
import struct
import sys

import torch_standins as standins
from torch_standins import Tensor

OUT = pathlib.Path(__file__).resolve().parent
expectations = {}

TENSORS = [
    Tensor("model.weight", "float32", (5, 3), [((0, 0), (3, 3), "__0_0.distcp", 900, 1200), ((3, 0), (2, 3), "__1_0.distcp", 0, 1180)]),
    Tensor("model.bias", "bfloat16", (3,), [((0,), (3,), "__0_0.distcp", 2100, 1100)]),
    Tensor("list.0", "int64", (), [((), (), "__1_0.distcp", 1180, 1000)]),
    Tensor("empty", "uint8", (0, 4), [((0, 0), (0, 4), "__0_0.distcp", 3200, 950)]),
]
OBJECTS = [("step", "__0_0.distcp", 0, 900)]
PATHS = {"model.weight": ("model", "weight"), "model.bias": ("model", "bias"), "list.0": ("list", 0), "empty": ("empty",),
         "step": ("step",)}


def described(tensors, objects, paths):
    def chunk(offsets, sizes, file, offset, length, *_):
        return {"offsets": list(offsets), "sizes": list(sizes), "file": file, "byte_offset": offset, "byte_length": length}

    return {"tensors": [{"name": t.name, "dtype": t.dtype, "shape": list(t.shape), "chunks": [chunk(*c) for c in t.chunks]}
                        for t in tensors],
            "objects": [{"name": n, "file": f, "byte_offset": o, "byte_length": length} for n, f, o, length in objects],
            "paths": {n: list(p) for n, p in paths.items()} if paths is not None else None}


def write(name, data, expected):
    (OUT / name).write_bytes(data)
    expectations[name] = expected


def whole(name, era, tensors=TENSORS, objects=OBJECTS, paths=PATHS, protocol=4, enum_by_getattr=False, edit=None, **fields):
    metadata = standins.build(era, tensors, objects, paths, **fields)
    if edit:
        edit(metadata)
    write(name, standins.dumps(metadata, protocol, enum_by_getattr), described(tensors, objects, paths))


def posix_path(where, *parts):
    """pathlib pickles as the class called with the parts; the module differs between Pythons."""
    class PosixPath:
        def __reduce__(self):
            return PosixPath, parts

    real = getattr(standins.module(where), "PosixPath", None)
    standins.place(PosixPath, where)
    return PosixPath(), (where, real)


def versions():
    old, middle, modern = standins.SHARD_ERA, standins.MIDDLE_ERA, standins.MODERN_ERA
    whole("shard-era.metadata", old, protocol=4)
    whole("torch-1.13.metadata", middle, paths=None)
    whole("torch-2.0.metadata", middle, protocol=4)
    whole("torch-2.1.metadata", middle, enum_by_getattr=True)
    whole("torch-2.2.metadata", middle, protocol=5)
    whole("torch-2.4.metadata", modern, storage_meta={"checkpoint_id": "/run/step-4", "save_id": "6c3f", "load_id": None})
    whole("torch-2.10.metadata", modern, transforms=True, enum_by_getattr=True, protocol=5,
          storage_meta={"checkpoint_id": "/run/step-4", "save_id": "6c3f", "load_id": None, "modules": []})
    whole("torch-2.13.metadata", modern, transforms=True, version="1.0.0",
          storage_meta={"checkpoint_id": "/run/step-4", "save_id": "6c3f", "load_id": None, "modules": []})
    whole("protocol-2.metadata", modern, protocol=2)
    whole("protocol-2-getattr.metadata", middle, protocol=2, enum_by_getattr=True)
    whole("protocol-3.metadata", modern, protocol=3)
    whole("protocol-5-getattr.metadata", modern, protocol=5, enum_by_getattr=True)


def paths_of_save():
    for module in ("pathlib", "pathlib._local"):
        path, (where, real) = posix_path(module, "/", "run", "step-4")
        whole(f"{module}.metadata", standins.MODERN_ERA, version="1.0.0",
              storage_meta={"checkpoint_id": path, "save_id": "6c3f", "load_id": None, "modules": ["model"]})
        if real:
            sys.modules[where].PosixPath = real


def tolerated():
    modern = standins.MODERN_ERA

    def no_storage_fields(metadata):
        del metadata.planner_data

    whole("planner-data-absent.metadata", modern, paths=None, edit=no_storage_fields)
    whole("unknown-attributes.metadata", modern, extra={"content": {"k": [1, 2.5, None, True, b"x", ("t",), {3}]}, "zone": "west"})

    def unknown_object(metadata):
        metadata.future = standins.record("torch.distributed.checkpoint.future", "Plan")(steps=[1], nested={"a": (1, 2)})
        metadata.state_dict_metadata["model.bias"].hint = "later"
        next(iter(metadata.storage_data.values())).checksum = 17

    whole("unknown-class-in-attribute.metadata", modern, edit=unknown_object)

    def reversed_paths(metadata):
        metadata.planner_data = dict(reversed(list(metadata.planner_data.items())), gone=("gone",))

    whole("planner-data-other-order.metadata", modern, edit=reversed_paths)
    expectations["planner-data-other-order.metadata"]["paths"]["gone"] = ["gone"]
    names = ["", "a.", ".a", "a b", "a/b", "ünï", "\U0001f600", "tab\there", "nul\0", "x" * 300]
    odd = [Tensor(n, "uint8", (1,), [((0,), (1,), "__0_0.distcp", 1000 * i, 1000)]) for i, n in enumerate(names)]
    whole("odd-names.metadata", modern, odd, [], {n: (n,) for n in names})
    digits = [Tensor("d.0", "uint8", (1,), [((0,), (1,), "sub/__0_0.distcp", 0, 1000)]),
              Tensor("l.0", "uint8", (1,), [((0,), (1,), "sub/__0_0.distcp", 1000, 1000)])]
    whole("digit-keys.metadata", modern, digits, [], {"d.0": ("d", "0"), "l.0": ("l", 0)})
    whole("large-offsets.metadata", modern, [Tensor("w", "uint8", (1 << 33,), [((0,), (1 << 33,), "__0_0.distcp", 1 << 41, (1 << 33) + 900)])],
          [], {"w": ("w",)})
    whole("nothing.metadata", modern, [], [], {})
    tail = [Tensor("w", "float32", (1, 2), [((0, 0), (1, 2), "__0_0.distcp", 0, 1000), ((1, 0), (0, 2), "__1_0.distcp", 0, 900),
                                            ((1, 0), (0, 2), "__2_0.distcp", 0, 900)])]
    # Both empty chunks have one key: the dict keeps the first key with the last value.
    whole("two-empty-tails.metadata", modern, tail, [], {"w": ("w",)}, edit=merge_equal_keys)
    expectations["two-empty-tails.metadata"]["tensors"][0]["chunks"][1]["file"] = "__2_0.distcp"


def merge_equal_keys(metadata):
    merged = {}
    for key, value in metadata.storage_data.items():
        known = next((k for k in merged if (k.fqn, getattr(k, "offset", None)) == (key.fqn, getattr(key, "offset", None))), key)
        merged[known] = value
    metadata.storage_data = merged


CORRUPT, UNSUPPORTED = ["corrupt"], ["unsupported"]
EITHER = ["corrupt", "unsupported"]


def refused_kinds():
    modern = standins.MODERN_ERA
    stored = [Tensor("w", "float32", (2,), [((0,), (2,), "__0_0.distcp", 0, 500, ["stream.lz4/1"])])]
    metadata = standins.build(modern, stored, [], {"w": ("w",)}, transforms=True, version="1.0.0")
    # The structure reads well; whoever wants the data refuses and names the transform.
    write("transform.metadata", standins.dumps(metadata), {"error": UNSUPPORTED, "says": "stream.lz4/1"})
    other = standins.record("bytecheckpoint.checkpointer.meta_type", "Metadata")
    write("bytecheckpoint.metadata", standins.dumps(other(state_dict_metadata={}, storage_data={})),
          {"error": UNSUPPORTED, "says": "ByteCheckpoint"})
    write("not-metadata.metadata", pickle.dumps({"state_dict_metadata": {}}, 4), {"error": EITHER})
    write("state-dict.metadata", pickle.dumps([1, 2, 3], 4), {"error": EITHER})


def attacks():
    header = b"\x80\x04"
    write("evil-os-system.metadata", header + b"cos\nsystem\n(S'touch cairn-was-here'\ntR.", {"error": EITHER})
    write("evil-stack-global.metadata", header + b"\x8c\x05posix\x8c\x06system\x93\x8c\x14touch cairn-was-here\x85R.",
          {"error": EITHER})
    write("evil-eval.metadata", header + b"cbuiltins\neval\n(S'1+1'\ntR.", {"error": EITHER})
    write("evil-getattr-module.metadata", header + b"cbuiltins\ngetattr\n(cos\npath\nS'join'\ntR.", {"error": EITHER})

    def other_getattr(metadata):
        class Outside:
            def __reduce__(self):
                return getattr, (standins.NEW_ENCODING, "mro")
        metadata.state_dict_metadata["model.bias"].properties.state = (
            standins.DTYPES["bfloat16"], standins.STRIDED, False, Outside(), False)

    metadata = standins.build(standins.MODERN_ERA, TENSORS, OBJECTS, PATHS)
    other_getattr(metadata)
    write("evil-getattr-member.metadata", standins.dumps(metadata), {"error": EITHER})
    deep = 30_000
    write("evil-deep-lists.metadata", header + b"]" * deep + b"a" * (deep - 1) + b".", {"error": EITHER})
    write("evil-deep-tuples.metadata", header + b"N" + b"\x85" * deep + b".", {"error": EITHER})
    write("evil-marks.metadata", header + b"(" * deep + b".", {"error": EITHER})
    write("evil-memo-index.metadata", header + b"Nr\xff\xff\xff\xff.", {"error": EITHER})
    laughs = b"]\x94" + b"".join(b"(" + b"h%c" % i * 100 + b"l\x94" for i in range(9))
    write("evil-laughs.metadata", header + laughs + b".", {"error": EITHER})
    write("evil-long-string.metadata", header + b"\x8d" + struct.pack("<Q", 1 << 62) + b"abc.", {"error": CORRUPT})
    write("evil-long-bytes.metadata", header + b"\x8e" + struct.pack("<Q", (1 << 64) - 1) + b"abc.", {"error": CORRUPT})
    write("evil-long-int.metadata", header + b"\x8b" + struct.pack("<i", 0x7FFFFFFF) + b"\1.", {"error": CORRUPT})
    write("evil-negative-int.metadata", header + b"\x8b" + struct.pack("<i", -1) + b"\1.", {"error": CORRUPT})
    write("evil-frame.metadata", header + b"\x95" + struct.pack("<Q", 1 << 60) + b"N.", {"error": CORRUPT})
    write("evil-protocol.metadata", b"\x80\xffN.", {"error": EITHER})
    write("evil-persistent.metadata", header + b"\x8c\x01xQ.", {"error": EITHER})
    write("evil-extension.metadata", header + b"\x82\x01.", {"error": EITHER})
    write("evil-underflow.metadata", header + b"R.", {"error": CORRUPT})
    write("evil-no-stop.metadata", header + b"]", {"error": CORRUPT})
    write("evil-self-list.metadata", header + b"]\x94h\x00a.", {"error": EITHER})
    write("empty.metadata", b"", {"error": CORRUPT})
    write("text.metadata", b"This is not a pickle.\n", {"error": CORRUPT})
    good = standins.dumps(standins.build(standins.MODERN_ERA, TENSORS, OBJECTS, PATHS))
    write("cut-in-half.metadata", good[: len(good) // 2], {"error": CORRUPT})
    write("cut-by-one.metadata", good[:-1], {"error": CORRUPT})


def faulty(name, tensors, objects=(), paths=None, says=None):
    metadata = standins.build(standins.MODERN_ERA, tensors, objects, paths)
    write(name, standins.dumps(metadata), {"error": EITHER} | ({"says": says} if says else {}))


def impossible_values():
    def one(offsets, sizes, file="__0_0.distcp", offset=0, length=1000, shape=(4,)):
        return [Tensor("w", "float32", shape, [(offsets, sizes, file, offset, length)])]

    faulty("negative-size.metadata", one((0,), (-4,)))
    faulty("negative-offset.metadata", one((-1,), (4,)))
    faulty("negative-place.metadata", one((0,), (4,), offset=-1))
    faulty("negative-shape.metadata", one((0,), (4,), shape=(-4,)))
    faulty("size-of-65-bits.metadata", one((0,), (1 << 64,)))
    faulty("element-count-overflow.metadata", one((0, 0, 0), (1 << 40, 1 << 40, 1 << 40), shape=(1 << 40, 1 << 40, 1 << 40)))
    faulty("path-up.metadata", one((0,), (4,), "../secret.distcp"), says="secret")
    faulty("path-absolute.metadata", one((0,), (4,), "/etc/passwd"), says="passwd")
    faulty("path-empty.metadata", one((0,), (4,), ""))
    faulty("path-nul.metadata", one((0,), (4,), "a\0b"))
    faulty("list-position-huge.metadata", one((0,), (4,)), paths={"w": ("l", 1 << 40)})
    faulty("list-position-negative.metadata", one((0,), (4,)), paths={"w": ("l", -1)})


def main():
    for old in OUT.glob("*.metadata"):
        old.unlink()
    for part in (versions, paths_of_save, tolerated, refused_kinds, attacks, impossible_values):
        part()
    text = json.dumps(expectations, indent=1, ensure_ascii=True)
    (OUT / "expectations.json").write_text(text + "\n")
    print(f"{len(expectations)} files")


if __name__ == "__main__":
    main()
