# SPDX-License-Identifier: BSD-3-Clause
"""Compressed items, in zstd frames made by hand; refused by name where cairn was built without zstd."""
import json
import unittest

from program import CliTest
from tiny_checkpoint import Directory, Tensor, numbered, tensor_item, torch_archive

MOST = 128 << 10  # of a block


def frame(content, window=0x58):
    """Raw blocks: RFC 8878, 3.1.1. No content size, no checksum, a window of 2 MiB."""
    blocks = b""
    for at in range(0, max(len(content), 1), MOST):
        piece = content[at:at + MOST]
        last = at + MOST >= len(content)
        blocks += (len(piece) << 3 | last).to_bytes(3, "little") + piece
    return b"\x28\xb5\x2f\xfd\x00" + bytes([window]) + blocks


class Zstd(CliTest):
    def setUp(self):
        super().setUp()
        self.has_zstd = json.loads(self.assert_success(self.cairn("version", "--json")).stdout)["zstd"] is not None

    def directory(self, name, compress):
        """Two tensors, one in two chunks and larger than what is kept at once, and an object."""
        directory = Directory(self.folder / name)
        counts = {"large": (300_000, 5000), "small": (7,)}
        for tensor, pieces in counts.items():
            chunks, begin = [], 0
            for count in pieces:
                item = tensor_item("float32", (count,), numbered(begin, count))
                chunks.append(((begin,), (count,), *directory.append("__0_0.distcp", compress(item)), ["stream.zstd/1"]))
                begin += count
            directory.tensors.append(Tensor(tensor, "float32", (begin,), chunks))
            directory.paths[tensor] = (tensor,)
        directory.objects.append(("step", *directory.append("__0_0.distcp", compress(torch_archive(7))), ["stream.zstd/1"]))
        directory.paths["step"] = ("step",)
        return directory

    def written(self, name="ckpt", compress=frame):
        return self.directory(name, compress).write(transforms=True)

    def without_zstd(self, source):
        """Whether that is so; then it is refused."""
        if not self.has_zstd:
            result = self.cairn("consolidate", source, self.folder / "out.pth")
            self.assert_fails(result, 1, r"stream\.zstd/1; .*without zstd")
        return not self.has_zstd

    def test_consolidated_and_verified(self):
        source = self.written()
        if self.without_zstd(source):
            return
        self.assertIn(b"large\tfloat32\t[305000]", self.assert_success(self.cairn("ls", source)).stdout)
        self.assert_success(self.cairn("verify", source))
        out = self.folder / "out.pth"
        self.assert_success(self.cairn("consolidate", source, out))
        self.assertIn(numbered(0, 305_000), out.read_bytes())

    def test_two_frames_are_one_item(self):
        source = self.written(compress=lambda item: frame(item[:100]) + frame(b"") + frame(item[100:]))
        if self.without_zstd(source):
            return
        self.assert_success(self.cairn("verify", source))
        out = self.folder / "out.pth"
        self.assert_success(self.cairn("consolidate", source, out))
        self.assertIn(numbered(0, 305_000), out.read_bytes())

    def test_damage_names_tensor_file_and_offset(self):
        kinds = {"garbage": (lambda item: frame(item) + b"more", "come 4 bytes that are none"), "short": (lambda item: frame(item)[:-1], "not complete"),
                 "window": (lambda item: frame(item, 0x70), "more than 8 MiB"), "plain": (lambda item: item, "28 b5 2f fd"),
                 "cut": (lambda item: frame(item[:-9]), "")}
        for name, (compress, words) in kinds.items():
            with self.subTest(name):
                source = self.written(name, compress)
                if self.without_zstd(source):
                    continue
                result = self.cairn("consolidate", source, self.folder / "out.pth")
                self.assertEqual(result.returncode, 1)
                self.assertRegex(result.stderr.decode(), rf"'\w+' in __0_0\.distcp at byte \d+.*{words}")
                self.assertFalse((self.folder / "out.pth").exists())
                verified = json.loads(self.cairn("verify", "--json", source).stdout)
                self.assertFalse(verified["ok"])
                self.assertEqual({fault["name"] for fault in verified["faults"]}, {"large", "small", "step"})


if __name__ == "__main__":
    unittest.main()
