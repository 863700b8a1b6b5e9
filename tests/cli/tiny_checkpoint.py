# SPDX-License-Identifier: BSD-3-Clause
"""Writes small DCP directories with the standard library alone; real torch reads them."""
import collections
import io
import pathlib
import pickle
import struct
import sys
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "data" / "metadata"))

import torch_standins as standins  # noqa: E402
from torch_standins import Tensor  # noqa: E402

STORAGES = {"float32": ("FloatStorage", 4), "bfloat16": ("BFloat16Storage", 2), "uint8": ("ByteStorage", 1),
            "int64": ("LongStorage", 8), "complex64": ("ComplexFloatStorage", 8), "complex128": ("ComplexDoubleStorage", 16)}
for _storage, _ in STORAGES.values():
    standins.place(type(_storage, (), {}), "torch")


def _rebuild_tensor_v2(*_):
    raise AssertionError("only ever pickled")


standins.place(_rebuild_tensor_v2, "torch._utils")


class _Stored:
    """A storage as torch.save names it: by a persistent id."""

    def __init__(self, kind, count, number=0):
        self.key = ("storage", getattr(standins.module("torch"), kind), str(number), "cpu", count)


class _TensorOf:
    def __init__(self, stored, shape, *more):
        self.stored, self.shape, self.more = stored, shape, more

    def __reduce__(self):
        strides = [1]
        for extent in reversed(self.shape[1:]):
            strides.insert(0, strides[0] * max(1, extent))
        strides = tuple(strides) if self.shape else ()
        return _rebuild_tensor_v2, (self.stored, 0, tuple(self.shape), strides, False, collections.OrderedDict(), *self.more)


class _Pickler(pickle.Pickler):
    def persistent_id(self, value):
        return value.key if isinstance(value, _Stored) else None


def pickled(value):
    data = io.BytesIO()
    _Pickler(data, 2).dump(value)
    return data.getvalue()


def torch_archive(value, storages=(), stem="archive"):
    """What torch.save writes for `value`."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{stem}/data.pkl", pickled(value))
        archive.writestr(f"{stem}/byteorder", "little")
        for i, payload in enumerate(storages):
            archive.writestr(f"{stem}/data/{i}", payload)
        archive.writestr(f"{stem}/version", "3\n")
    return out.getvalue()


def tensor_of(element_type, shape, storage=0):
    return _TensorOf(_Stored(STORAGES[element_type][0], element_count(shape), storage), shape)


def tensor_item(element_type, shape, payload):
    return torch_archive(tensor_of(element_type, shape), [payload])


def conjugate_item(shape, payload):
    return torch_archive(_TensorOf(_Stored("ComplexFloatStorage", len(payload) // 8), shape, {"conj": True}), [payload])


def element_count(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


def numbered(first, count):
    return struct.pack(f"<{count}f", *map(float, range(first, first + count)))


def rows(name, shape, cuts, files, element_type="float32"):
    """A tensor of numbered float32 rows, cut before the rows `cuts`: a list of (offsets, sizes, file, payload)."""
    bounds = [0, *cuts, shape[0]]
    width = element_count(shape[1:])
    pieces = []
    for i, (begin, end) in enumerate(zip(bounds, bounds[1:])):
        pieces.append(((begin,) + (0,) * (len(shape) - 1), (end - begin, *shape[1:]), files[i % len(files)],
                       numbered(begin * width, (end - begin) * width)))
    return name, element_type, shape, pieces


class Directory:
    """A checkpoint in the making: add tensors and objects, then write()."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.mkdir(parents=True)
        self.files = {}
        self.tensors = []
        self.objects = []
        self.paths = {}

    def append(self, file, data):
        content = self.files.setdefault(file, bytearray())
        begin = len(content)
        content += data
        return file, begin, len(data)

    def tensor(self, name, element_type, shape, pieces, path=None):
        chunks = [(o, s, *self.append(f, tensor_item(element_type, s, payload))) for o, s, f, payload in pieces]
        self.tensors.append(Tensor(name, element_type, shape, chunks))
        self.paths[name] = path or (name,)
        return self

    def object(self, name, value, file="__0_0.distcp", path=None):
        self.objects.append((name, *self.append(file, torch_archive(value))))
        self.paths[name] = path or (name,)
        return self

    def write(self, era=standins.MODERN_ERA, **fields):
        for name, content in self.files.items():
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        metadata = standins.build(era, self.tensors, self.objects, self.paths, **{"version": "1.0.0", **fields})
        (self.path / ".metadata").write_bytes(standins.dumps(metadata))
        return self.path


def small(path, **fields):
    """Two ranks, two tensors, two objects; 5 × 3, 4 and their elements numbered."""
    directory = Directory(path)
    directory.object("step", 7)
    directory.tensor(*rows("net.weight", (5, 3), [3], ["__0_0.distcp", "__1_0.distcp"]), path=("net", "weight"))
    directory.tensor(*rows("net.bias", (4,), [], ["__1_0.distcp"]), path=("net", "bias"))
    directory.object("note", "text", "__1_0.distcp")
    return directory.write(**fields)


def large(path, mib):
    """One float32 tensor of so many MiB on two ranks, without holding it twice."""
    directory = Directory(path)
    count = mib << 18
    half = count // 2
    payload = b"\x00\x01\x02\x03" * half
    directory.tensor("w", "float32", (count,), [((0,), (half,), "__0_0.distcp", payload),
                                                 ((half,), (count - half,), "__1_0.distcp", payload)])
    return directory.write()
