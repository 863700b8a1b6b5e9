# SPDX-License-Identifier: BSD-3-Clause
"""Pickles `.metadata` of any PyTorch version without PyTorch.

Stand-in classes live under the real module names and take the real pickled shape (NEWOBJ and BUILD, the 5-tuple of
TensorProperties, REDUCE for sizes and layouts), so the bytes are those that the version in question writes. Do not import this
into a process that uses the real torch.
"""
import builtins
import enum
import io
import pickle
import sys
import types

CHECKPOINT = "torch.distributed.checkpoint.metadata"
OLD_CHECKPOINT = "torch.distributed._shard.checkpoint.metadata"
OLD_PROPERTIES = "torch.distributed._shard.sharded_tensor.metadata"
FILESYSTEM = "torch.distributed.checkpoint.filesystem"
OLD_FILESYSTEM = "torch.distributed._shard.checkpoint.filesystem"


def module(name):
    parent, _, last = name.rpartition(".")
    if name not in sys.modules:
        sys.modules[name] = types.ModuleType(name)
        if parent:
            setattr(module(parent), last, sys.modules[name])
    return sys.modules[name]


def place(value, where, name=None):
    """Makes `value` importable as where.name, as pickle wants it."""
    name = name or value.__name__
    value.__module__, value.__qualname__ = where, name
    setattr(module(where), name, value)
    return value


class Size(tuple):
    def __reduce__(self):
        return Size, (tuple(self),)


place(Size, "torch")


class dtype:  # noqa: N801
    def __init__(self, name):
        self.name = name
        self.__module__ = "torch"
        setattr(module("torch"), name, self)

    def __reduce__(self):
        return self.name


DTYPES = {name: dtype(name) for name in """bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128
uint16 uint32 uint64 float8_e4m3fn float8_e5m2 qint8""".split()}


def _get_layout(name):
    raise AssertionError("only ever pickled")


place(_get_layout, "torch.serialization")


class layout:  # noqa: N801
    def __reduce__(self):
        return _get_layout, ("torch.strided",)


STRIDED = layout()


class Record:
    """A dataclass as pickle sees it: NEWOBJ without arguments, then BUILD of __dict__."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


def record(where, name):
    return place(type(name, (Record,), {}), where)


def memory_format(where, name):
    return place(enum.Enum(name, {"TORCH_CONTIGUOUS_FORMAT": 0, "TORCH_CHANNELS_LAST": 1, "TORCH_PRESERVE_FORMAT": 2}), where, name)


def properties(where, encoding):
    class TensorProperties:
        def __init__(self, element_type, requires_grad=False):
            self.state = (element_type, STRIDED, requires_grad, encoding.TORCH_CONTIGUOUS_FORMAT, False)

        def __getstate__(self):
            return self.state

    return place(TensorProperties, where)


class Era:
    """The classes of one range of versions."""

    def __init__(self, checkpoint, filesystem, properties_class):
        for name in ("Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata", "MetadataIndex", "StorageMeta"):
            setattr(self, name, record(checkpoint, name))
        self.StorageInfo = record(filesystem, "_StorageInfo")
        self.TensorProperties = properties_class


OLD_ENCODING = memory_format(OLD_PROPERTIES, "MEM_FORMAT_ENCODING")
NEW_ENCODING = memory_format(CHECKPOINT, "_MEM_FORMAT_ENCODING")
SHARDED_PROPERTIES = properties(OLD_PROPERTIES, OLD_ENCODING)
SHARD_ERA = Era(OLD_CHECKPOINT, OLD_FILESYSTEM, SHARDED_PROPERTIES)    # the private predecessor of 1.13
MIDDLE_ERA = Era(CHECKPOINT, FILESYSTEM, SHARDED_PROPERTIES)           # 1.13 … 2.2
MODERN_ERA = Era(CHECKPOINT, FILESYSTEM, properties(CHECKPOINT, NEW_ENCODING))  # since 2.3
_MIDDLE_CLASSES, _MODERN_CLASSES = dict(MIDDLE_ERA.__dict__), dict(MODERN_ERA.__dict__)
for _name in ("Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata", "MetadataIndex", "StorageMeta",
              "StorageInfo"):
    setattr(MIDDLE_ERA, _name, _MODERN_CLASSES[_name])  # One global name, one class: both eras share these.


class _Pickler(pickle.Pickler):
    """Picks the form of enum members, which differs between Pythons."""

    def __init__(self, stream, protocol, enum_by_getattr):
        super().__init__(stream, protocol)
        self.enum_by_getattr = enum_by_getattr

    def reducer_override(self, value):
        if isinstance(value, enum.Enum):
            if self.enum_by_getattr:
                return builtins.getattr, (type(value), value.name)
            return type(value), (value.value,)
        return NotImplemented


def dumps(value, protocol=4, enum_by_getattr=False):
    stream = io.BytesIO()
    _Pickler(stream, protocol, enum_by_getattr).dump(value)
    return stream.getvalue()


class Tensor:
    """chunks: (offsets, sizes, file, byte offset, byte length [, transforms])"""

    def __init__(self, name, element_type, shape, chunks, **extra):
        self.name, self.dtype, self.shape, self.chunks, self.extra = name, element_type, tuple(shape), chunks, extra


def storage_info(era, place_in_file, with_transforms):
    path, offset, length, *transforms = place_in_file
    info = era.StorageInfo(relative_path=path, offset=offset, length=length)
    if transforms or with_transforms:
        info.transform_descriptors = transforms[0] if transforms else None
    return info


def build(era, tensors, objects, paths=None, transforms=False, storage_meta=None, version=None, extra=None):
    """-> a Metadata. objects: (name, file, byte offset, byte length); fields that are None are absent, `paths` excepted."""
    described, stored = {}, {}
    for tensor in tensors:
        boxes = [era.ChunkStorageMetadata(offsets=Size(c[0]), sizes=Size(c[1])) for c in tensor.chunks]
        described[tensor.name] = era.TensorStorageMetadata(
            properties=era.TensorProperties(DTYPES[tensor.dtype]), size=Size(tensor.shape), chunks=boxes, **tensor.extra)
        for i, chunk in enumerate(tensor.chunks):
            index = era.MetadataIndex(fqn=tensor.name, index=i, offset=Size(chunk[0]))
            stored[index] = storage_info(era, chunk[2:], transforms)
    for name, *where in objects:
        described[name] = era.BytesStorageMetadata()
        stored[era.MetadataIndex(fqn=name, index=None)] = storage_info(era, where, transforms)
    fields = {"state_dict_metadata": described, "planner_data": paths, "storage_data": stored}
    if storage_meta is not None:
        fields["storage_meta"] = era.StorageMeta(**storage_meta)
    if version is not None:
        fields["version"] = version
    return era.Metadata(**fields, **(extra or {}))
