# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints at the borders of 16, 31 and 32 bits, with the standard library alone.

    make_extremes.py records|large|file OUT

records: 70 000 tensors of one int64, tensor i holds i. large: sparse shards; nothing but MARKS is not zero. file: the large tensor
in a sparse torch file.
"""
import pathlib
import struct
import sys
import zlib

if __name__ == "__main__":  # Its stand-ins for torch's classes may not meet the real ones: run_extremes.py imports the numbers only.
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
    import tiny_checkpoint
    from tiny_checkpoint import Tensor

RECORDS = 70_000
CUT = 2**31 - 1
LARGE = 2**32 + 5
# Elements of the large tensor that are not zero: around each border.
MARKS = {at: 1 + i for i, at in enumerate((0, 2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 4))}


def records(path):
    """One item, its payload and both CRCs exchanged: 70 000 calls of zipfile would take longer than the test."""
    directory = tiny_checkpoint.Directory(path)
    model = struct.pack("<q", 0x1122334455667788)
    item = tiny_checkpoint.tensor_item("int64", (1,), model)
    crc = struct.pack("<I", zlib.crc32(model))
    payload_at, crc_at = item.index(model), [i for i in range(len(item)) if item.startswith(crc, i)]
    assert len(crc_at) == 2
    for i in range(RECORDS):
        mine, payload = bytearray(item), struct.pack("<q", i)
        mine[payload_at:payload_at + 8] = payload
        for at in crc_at:
            mine[at:at + 4] = struct.pack("<I", zlib.crc32(payload))
        name = f"t.{i}"
        directory.tensors.append(Tensor(name, "int64", (1,), [((0,), (1,), *directory.append(f"__{i % 3}_0.distcp", mine))]))
        directory.paths[name] = ("t", str(i))
    directory.write()


def large(path):
    directory = tiny_checkpoint.Directory(path)
    place = [sparse_item(path / "__0_0.distcp", CUT, part_of_marks(0, CUT)),
             sparse_item(path / "__1_0.distcp", LARGE - CUT, part_of_marks(CUT, LARGE))]
    directory.tensors.append(Tensor("large", "uint8", (LARGE,), [((0,), (CUT,), "__0_0.distcp", 0, place[0]),
                                                                ((CUT,), (LARGE - CUT,), "__1_0.distcp", 0, place[1])]))
    exact = sparse_item(path / "__2_0.distcp", 2**31, {2**31 - 1: 7})
    directory.tensors.append(Tensor("exact", "uint8", (2**31,), [((0,), (2**31,), "__2_0.distcp", 0, exact)]))
    directory.paths.update(large=("large",), exact=("exact",))
    directory.tensor(*tiny_checkpoint.rows("after", (5, 3), [2], ["__3_0.distcp"]))
    directory.write()


def file(path):
    tensor = tiny_checkpoint.tensor_of("uint8", (LARGE,))
    sparse_item(path, LARGE, MARKS, tiny_checkpoint.pickled({"model": {"large": tensor}, "step": 3}))


def part_of_marks(begin, end):
    return {at - begin: value for at, value in MARKS.items() if begin <= at < end}


def sparse_item(path, size, marks, pickled=None):
    """A file that is one item, or torch's file of that pickle, its storage a hole but for the marks. -> its length"""
    crc = crc_of(size, marks)
    pickled = pickled or tiny_checkpoint.pickled(tiny_checkpoint.tensor_of("uint8", (size,)))
    entries = []
    with open(path, "wb") as stream:
        for name, content in (("data.pkl", pickled), ("byteorder", b"little"), ("data/0", None), ("version", b"3\n")):
            begin, wide = stream.tell(), content is None
            length, check = (size, crc) if wide else (len(content), zlib.crc32(content))
            name = f"archive/{name}".encode()
            extra = struct.pack("<HHQQ", 1, 16, length, length) if wide else b""
            shown = 0xFFFFFFFF if wide else length
            stream.write(struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 0, check, shown, shown, len(name), len(extra)) + name + extra)
            if wide:
                payload = stream.tell()
                for at, value in marks.items():
                    stream.seek(payload + at)
                    stream.write(bytes([value]))
                stream.seek(payload + length)
            else:
                stream.write(content)
            extra += struct.pack("<Q", begin) if wide else b""
            entries.append((name, check, length, begin))
        write_directory(stream, entries)
        return stream.tell()


def write_directory(stream, entries):
    begin = stream.tell()
    for name, crc, length, at in entries:
        extra = struct.pack("<HHQQQ", 1, 24, length, length, at)
        stream.write(struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, 0, crc, 0xFFFFFFFF, 0xFFFFFFFF, len(name), len(extra),
                                 0, 0, 0, 0, 0xFFFFFFFF) + name + extra)
    end, count = stream.tell(), len(entries)
    stream.write(struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, count, count, end - begin, begin))
    stream.write(struct.pack("<IIQI", 0x07064B50, 0, end, 1))
    stream.write(struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, end - begin, 0xFFFFFFFF, 0))


def crc_of(size, marks):
    crc, at, zeros = 0, 0, bytes(1 << 20)
    for mark, value in sorted(marks.items()) + [(size, None)]:
        while at < mark:
            piece = min(mark - at, len(zeros))
            crc = zlib.crc32(memoryview(zeros)[:piece], crc)
            at += piece
        if value is not None:
            crc = zlib.crc32(bytes([value]), crc)
            at += 1
    return crc


if __name__ == "__main__":
    globals()[sys.argv[1]](pathlib.Path(sys.argv[2]))
