# SPDX-License-Identifier: BSD-3-Clause
"""verify: what is proven of the payload, reports in both forms, exit status, every kind of path."""
import json
import unittest
import zipfile

import tiny_checkpoint
from program import CliTest, described


class Verify(CliTest):
    def setUp(self):
        super().setUp()
        self.source = tiny_checkpoint.small(self.folder / "source")
        self.shard = self.source / "__0_0.distcp"

    def report(self, *arguments, status):
        result = self.cairn("verify", "--json", *arguments)
        self.assertEqual(result.returncode, status, described(result))
        report = json.loads(result.stdout)
        self.assertEqual(set(report), {"ok", "complete", "checked_bytes", "unchecked_items", "faults", "warnings"})
        self.assertEqual(report["ok"], status == 0)
        return report

    def damage(self, path, at):
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    def damage_weight(self):
        self.damage(self.shard, self.shard.read_bytes().index(tiny_checkpoint.numbered(3, 3)))

    def kinds(self, *arguments):
        return {(f["kind"], f["name"]) for f in self.report(*arguments, status=1)["faults"]}

    def test_a_whole_checkpoint_has_one_line(self):
        result = self.assert_success(self.cairn("verify", self.source))
        self.assertEqual(result.stdout.count(b"\n"), 1)
        self.assertTrue(result.stdout.startswith(b"whole: 2 tensors, 2 objects, 3 chunks in 2 files, 76 B; CRC-32 of "))
        report = self.report("--strict", self.source, status=0)
        self.assertTrue(report["complete"])
        self.assertEqual((report["faults"], report["warnings"], report["unchecked_items"]), ([], [], 0))
        payload = sum(len(d) for p in self.source.glob("*.distcp") for d in self.contents(p.read_bytes()))
        self.assertEqual(report["checked_bytes"], payload)

    def contents(self, shard):
        """Of every record of every item."""
        while shard:
            end = shard.index(b"PK\5\6") + 22
            path = self.folder / "item"
            path.write_bytes(shard[:end])
            with zipfile.ZipFile(path) as archive:
                yield from (archive.read(name) for name in archive.namelist())
            shard = shard[end:]

    def test_a_flipped_payload_bit_is_named_in_both_forms(self):
        self.damage_weight()
        fault, = self.report(self.source, status=1)["faults"]
        self.assertEqual((fault["kind"], fault["name"], fault["file"]), ("crc", "net.weight", "__0_0.distcp"))
        self.assertEqual(fault["byte_offset"], self.shard.read_bytes().index(tiny_checkpoint.numbered(0, 3)))
        self.assertIn("[0:3, 0:3]", fault["message"])
        plain = self.cairn("verify", self.source)
        self.assertEqual(plain.returncode, 1)
        self.assertEqual(plain.stdout.decode().split("\t")[:4], ["crc", "net.weight", "__0_0.distcp", str(fault["byte_offset"])])
        self.assertIn(b"1 fault", plain.stderr)
        self.assert_success(self.cairn("verify", "--metadata-only", self.source))

    def test_ranks_say_the_same_once(self):
        self.damage_weight()
        alone, together = self.cairn("verify", self.source), self.mpirun(3, "verify", self.source)
        self.assertEqual(together.stdout, alone.stdout)
        self.assertNotEqual(together.returncode, 0)

    def test_every_kind_of_item_damage_has_its_kind(self):
        directory = tiny_checkpoint.Directory(self.folder / "odd")
        item, numbered = tiny_checkpoint.tensor_item, tiny_checkpoint.numbered
        items = {"dtype": item("int64", (2,), numbered(0, 4)), "shape": item("float32", (4, 1), numbered(0, 4)),
                 "header": b"\0" + item("float32", (4,), numbered(0, 4)), "pickle": tiny_checkpoint.torch_archive(7)}
        stored = tiny_checkpoint._Stored("FloatStorage", 5)  # names more than the record has
        items["storage"] = tiny_checkpoint.torch_archive(tiny_checkpoint._TensorOf(stored, (4,)), [numbered(0, 4)])
        for name, data in items.items():
            directory.tensors.append(tiny_checkpoint.Tensor(name, "float32", (4,), [((0,), (4,), *directory.append("a.distcp", data))]))
            directory.paths[name] = (name,)
        first = directory.tensors[0]
        directory.tensors.append(tiny_checkpoint.Tensor("inside", "float32", (4,), [((0,), (4,), "a.distcp", 64, 512)]))
        directory.paths["inside"] = ("inside",)
        directory.write()
        self.assertEqual(self.kinds(directory.path), {("dtype", first.name), ("shape", "dtype"), ("shape", "shape"), ("header", "header"),
                                                      ("pickle", "pickle"), ("pickle", "storage"), ("storage_data", "inside")})

    def test_raw_objects_are_unchecked(self):
        directory = tiny_checkpoint.Directory(self.folder / "raw")
        directory.objects.append(("raw", *directory.append("a.distcp", b"any bytes")))
        directory.objects.append(("empty", *directory.append("a.distcp", b"")))
        directory.paths |= {"raw": ("raw",), "empty": ("empty",)}
        directory.write()
        report = self.report(directory.path, status=0)
        self.assertEqual((report["unchecked_items"], report["complete"]), (1, False))
        self.assertIn(b"unchecked: 1 item", self.cairn("verify", directory.path).stderr)
        self.assertEqual(self.kinds("--strict", directory.path), {("crc", "raw")})

    def test_torch_files(self):
        path = self.folder / "m.pth"
        path.write_bytes(tiny_checkpoint.tensor_item("float32", (4,), tiny_checkpoint.numbered(0, 4)))
        result = self.assert_success(self.cairn("verify", path))
        self.assertTrue(result.stdout.startswith(b"whole: 1 torch file, "), result.stdout)
        self.assert_success(self.cairn("verify", "--metadata-only", path))
        self.damage(path, path.read_bytes().index(tiny_checkpoint.numbered(0, 4)))
        fault, = self.report(path, status=1)["faults"]
        self.assertEqual((fault["kind"], fault["name"], fault["file"]), ("crc", "", str(path)))
        missing = tiny_checkpoint._TensorOf(tiny_checkpoint._Stored("FloatStorage", 4), (4,))
        path.write_bytes(tiny_checkpoint.torch_archive(missing))
        self.assertEqual(self.kinds(path), {("pickle", "")})
        self.assert_success(self.cairn("consolidate", self.source, self.folder / "whole.pth"))
        self.assertTrue(self.report("--strict", self.folder / "whole.pth", status=0)["complete"])

    def test_each_component_of_an_iteration_is_checked_and_named(self):
        iteration = self.folder / "iter_000000025"
        for part in ("model", "optim"):
            tiny_checkpoint.small(iteration / part)
        result = self.assert_success(self.cairn("verify", iteration), notes=True)
        self.assertEqual(result.stdout.count(b"\n"), 1)
        self.assertIn(b"whole: 4 tensors", result.stdout)
        self.assertIn(str(iteration / "optim").encode(), result.stdout)
        (iteration / "optim" / "__1_0.distcp").unlink()
        faults = self.report(iteration, status=1)["faults"]
        self.assertEqual({f["file"] for f in faults}, {str(iteration / "optim" / "__1_0.distcp")})
        (iteration / "optim" / ".metadata").write_bytes(b"damaged")
        self.damage(iteration / "model" / "__0_0.distcp", 0)
        self.assertEqual({f["kind"] for f in self.report(iteration, status=1)["faults"]}, {"pickle", "header"})

    def test_options(self):
        self.assert_success(self.cairn("verify", "--threads", "3", "--max-memory", "1MiB", self.source))
        shown = self.assert_success(self.cairn("verify", "--progress", "always", self.source), notes=True)
        self.assertIn(b"GB/s", shown.stderr)
        for wrong in (["--threads", "0"], ["--max-memory", "1"], ["--metadata-only", "--strict"], []):
            operands = [self.source] if wrong else []
            self.assert_fails(self.cairn("verify", *wrong, *operands), 2)


if __name__ == "__main__":
    unittest.main()
