# SPDX-License-Identifier: BSD-3-Clause
"""Strict comparison of two torch files.

    compare.py OURS REFERENCE [--identical]

Equal means: same nesting, key types and key order, value types, dtypes, shapes, bits (NaN payloads included) and, within one
object, the same tensors sharing one storage. Ours must also be contiguous, on the CPU, without gradients, open with weights_only
and with mmap, and pass zipfile's CRC test. Byte identity is reported, and demanded with --identical.
"""
import io
import sys
import zipfile

import torch

PLAIN = (type(None), bool, int, str, bytes, bytearray, torch.Size, torch.dtype, torch.device, torch.layout)


class Comparison:
    def __init__(self, limit=20):
        self.faults = []
        self.limit = limit
        self.tensors = 0
        self.objects = 0

    def fault(self, where, text):
        if len(self.faults) < self.limit:
            self.faults.append(f"{where or '<top>'}: {text}")

    def same(self, ours, theirs, where, sharing=None):
        """`sharing` maps storages of ours to those of theirs inside one object; None at the level of the state dict."""
        if type(ours) is not type(theirs):
            self.fault(where, f"type {type(ours).__name__}, expected {type(theirs).__name__}")
        elif isinstance(theirs, torch.Tensor):
            self.same_tensor(ours, theirs, where, sharing)
        elif isinstance(theirs, dict):
            self.same_dict(ours, theirs, where, sharing)
        elif isinstance(theirs, (list, tuple)) and not isinstance(theirs, torch.Size):
            self.same_sequence(ours, theirs, where, sharing)
        else:
            self.same_leaf(ours, theirs, where)

    def same_dict(self, ours, theirs, where, sharing):
        if [(type(k), k) for k in ours] != [(type(k), k) for k in theirs]:
            self.fault(where, f"keys {shorten(list(ours))}, expected {shorten(list(theirs))}")
        for key in theirs:
            if key in ours:
                self.same(ours[key], theirs[key], f"{where}[{key!r}]", sharing)

    def same_sequence(self, ours, theirs, where, sharing):
        if len(ours) != len(theirs):
            return self.fault(where, f"{len(ours)} elements, expected {len(theirs)}")
        if isinstance(theirs, tuple) and sharing is None:
            sharing = {}  # A tuple is never walked on saving: all below it is one object.
        for i, (a, b) in enumerate(zip(ours, theirs)):
            self.same(a, b, f"{where}[{i}]", sharing)

    def same_leaf(self, ours, theirs, where):
        self.objects += 1
        if not equal_leaves(ours, theirs):
            self.fault(where, f"value {shorten(ours)}, expected {shorten(theirs)}")

    def same_tensor(self, ours, theirs, where, sharing):
        self.tensors += 1
        for what in ("dtype", "shape", "device", "requires_grad", "layout"):
            a, b = getattr(ours, what), getattr(theirs, what)
            if a != b:
                self.fault(where, f"{what} {a}, expected {b}")
        if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            return
        self.same_bits(ours, theirs, where)
        if sharing is None:
            self.check_plain(ours, where)
        else:
            self.check_sharing(ours, theirs, where, sharing)

    def check_plain(self, ours, where):
        if not ours.is_contiguous():
            self.fault(where, f"not contiguous: strides {ours.stride()}")
        if ours.requires_grad or type(ours) is not torch.Tensor:
            self.fault(where, f"a {type(ours).__name__} with requires_grad={ours.requires_grad}, expected a plain tensor")
        if ours.storage_offset() != 0 or ours.untyped_storage().nbytes() != ours.numel() * ours.itemsize:
            self.fault(where, f"its storage has {ours.untyped_storage().nbytes()} bytes, expected {ours.numel() * ours.itemsize}")

    def check_sharing(self, ours, theirs, where, sharing):
        if (ours.stride(), ours.storage_offset()) != (theirs.stride(), theirs.storage_offset()):
            self.fault(where, f"strides {ours.stride()} at {ours.storage_offset()}, "
                              f"expected {theirs.stride()} at {theirs.storage_offset()}")
        pair = (ours.untyped_storage()._cdata, theirs.untyped_storage()._cdata)
        if sharing.setdefault(("ours", pair[0]), pair[1]) != pair[1] or sharing.setdefault(("theirs", pair[1]), pair[0]) != pair[0]:
            self.fault(where, "does not share its storage with the tensors that it should")

    def same_bits(self, ours, theirs, where):
        a, b = bytes_of(ours), bytes_of(theirs)
        if not torch.equal(a, b):
            first = int((a != b).nonzero()[0])
            count = int((a != b).sum())
            self.fault(where, f"{count} bytes differ, the first in element {first // max(1, ours.itemsize)}")


def bytes_of(tensor):
    with torch.no_grad():
        flat = tensor.detach().contiguous()
        return torch.empty(0, dtype=torch.uint8).set_(
            flat.untyped_storage(), flat.storage_offset() * flat.itemsize, (flat.numel() * flat.itemsize,))


def equal_leaves(ours, theirs):
    if isinstance(theirs, (float, complex)):
        return repr(ours) == repr(theirs) or (ours != ours and theirs != theirs)
    if isinstance(theirs, PLAIN):
        return ours == theirs
    if isinstance(theirs, io.BytesIO):
        return ours.getvalue() == theirs.getvalue()
    if hasattr(theirs, "tobytes"):  # NumPy
        return (ours.dtype, ours.shape, ours.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())
    return ours == theirs


def shorten(value, limit=200):
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "…"


def check_archive(path, faults):
    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
            if bad is not None:
                faults.append(f"{path}: zipfile finds {bad} damaged")
            methods = {entry.compress_type for entry in archive.infolist()}
            if methods != {zipfile.ZIP_STORED}:
                faults.append(f"{path}: records are not all stored")
    except (zipfile.BadZipFile, EOFError) as error:
        faults.append(f"{path}: zipfile: {error}")


def same_bytes(a, b, piece=1 << 20):
    with open(a, "rb") as left, open(b, "rb") as right:
        while True:
            x, y = left.read(piece), right.read(piece)
            if x != y:
                return False
            if not x:
                return True


def compare_files(ours, theirs, safe=True):
    """-> (faults, byte-identical). Both files are opened plainly; ours again by mmap."""
    comparison = Comparison()
    check_archive(ours, comparison.faults)
    try:
        reference = torch.load(theirs, weights_only=safe)
        comparison.same(torch.load(ours, weights_only=safe), reference, "")
        comparison.same(torch.load(ours, weights_only=safe, mmap=True), reference, "")
    except Exception as error:  # Whatever torch.load says of a bad file is a finding.
        comparison.faults.append(f"{ours}: torch.load: {type(error).__name__}: {shorten(str(error), 600)}")
    return comparison.faults, same_bytes(ours, theirs)


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    faults, identical = compare_files(*arguments, safe="--unsafe" not in sys.argv)
    print("\n".join(faults) or "equal", "(byte-identical)" if identical else "(bytes differ)")
    return 1 if faults or ("--identical" in sys.argv and not identical) else 0


if __name__ == "__main__":
    sys.exit(main())
