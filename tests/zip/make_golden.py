# SPDX-License-Identifier: BSD-3-Clause
"""Writes tests/data/zip with real torch and Python's zipfile. Run by hand; the results are committed.

    make_golden.py OUT

*.pth        whole files of torch.save
*.skeleton   what torch.save writes for storages around and above 4 GiB, without the payloads of those storages: torch is given
             sparse files (UntypedStorage.from_file) and a stream that drops long writes
many.txt     per line: storages, size and CRC of data.pkl, size of the file, CRC of the file without data.pkl's payload; for torch.save of a
             list of that many tensors [i % 256] of uint8
*.zip        stored and deflated archives of Python's zipfile
"""
import io
import os
import pathlib
import sys
import tempfile
import zipfile
import zlib

import torch
from torch.utils.serialization import config

LONG_WRITE = 1 << 20


class WithoutLongWrites:
    def __init__(self):
        self.kept = bytearray()
        self.position = 0

    def write(self, data):
        if len(data) < LONG_WRITE:
            self.kept += data
        self.position += len(data)
        return len(data)

    def flush(self):
        pass


def whole_files(out):
    torch.save({}, out / "empty_dict.pth")
    torch.save(torch.arange(24.0).reshape(4, 6), out / "one tensor.v1.pth")
    several = {
        "zero": torch.zeros(0, 3),
        "bytes": torch.arange(63, dtype=torch.uint8),
        "line": torch.arange(64, dtype=torch.uint8),
        "more": torch.arange(65, dtype=torch.uint8),
        "scalar": torch.tensor(7),
        "half": torch.ones(5, dtype=torch.bfloat16),
    }
    torch.save(several, out / "several.pth")
    config.save.storage_alignment = 1024
    torch.save([torch.arange(3), torch.zeros(0)], out / "aligned_1024.pth")
    config.save.storage_alignment = 64
    torch.serialization.set_crc32_options(False)
    torch.save([torch.arange(3), torch.zeros(0)], out / "no_crc.pth")
    torch.serialization.set_crc32_options(True)
    torch.save([torch.tensor([i], dtype=torch.uint8) for i in range(30)], out / "thirty.pth")


def sparse(folder, name, count):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.truncate(count)
    storage = torch.UntypedStorage.from_file(path, False, count)
    return torch.empty(0, dtype=torch.uint8).set_(storage, 0, (count,))


def skeletons(out):
    wide = 2**32 - 1
    header_of_second = 848  # with a first storage of 0 bytes and its descriptor
    cases = {
        "size_below_wide": [wide - 1],
        "size_wide": [wide],
        "header_below_wide": [wide - header_of_second - 1],
        "header_wide": [wide - header_of_second],
        "two_wide": [2**32 + 64, 2**32 + 1],
    }
    for name, counts in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            big = [sparse(folder, str(i), count) for i, count in enumerate(counts)]
            stream = WithoutLongWrites()
            torch.save(big + [torch.zeros(0), torch.arange(3.0)], stream)
        (out / f"{name}.skeleton").write_bytes(stream.kept)


def many(count):
    stream = io.BytesIO()
    torch.save([torch.tensor([i % 256], dtype=torch.uint8) for i in range(count)], stream)
    data = stream.getvalue()
    pickle = zipfile.ZipFile(stream).getinfo("archive/data.pkl")
    rest = zlib.crc32(data[64 + pickle.file_size:], zlib.crc32(data[:64]))
    return f"{count} {pickle.file_size} {pickle.CRC} {len(data)} {rest}\n"


def zipfiles(out):
    with zipfile.ZipFile(out / "python_stored.zip", "w") as archive:
        archive.comment = b"a comment"
        archive.writestr("model/data.pkl", b"pickle")
        archive.writestr("model/data/0", bytes(range(100)))
        archive.writestr("model/version", b"3\n")
    with zipfile.ZipFile(out / "python_deflated.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/data.pkl", b"pickle" * 20)


def main(out):
    out.mkdir(parents=True, exist_ok=True)
    whole_files(out)
    zipfiles(out)
    skeletons(out)
    # With the six records beside the storages: 65 535 and 65 536 entries.
    (out / "many.txt").write_text("".join(many(count) for count in (65529, 65530)))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
