# SPDX-License-Identifier: BSD-3-Clause
"""consolidate: --flat, --objects, --align: what is in the files, and which files there are."""
import collections
import io
import json
import os
import pickle
import unittest
import zipfile

import tiny_checkpoint
from program import CliTest, part_of
from tiny_checkpoint import Directory, rows


class Reader(pickle.Unpickler):
    def persistent_load(self, identity):
        return identity[2]

    def find_class(self, module, name):
        if module.startswith("torch"):
            return lambda *arguments: f"tensor {arguments[0]}" if arguments else None
        return super().find_class(module, name)


def state_of(path):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        stem = archive.namelist()[0].split("/")[0]
        return Reader(io.BytesIO(archive.read(f"{stem}/data.pkl"))).load()


UNSAFE = collections.deque([1, 2])


class Shapes(CliTest):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"
        self.target = self.out / "m.pth"
        self.beside = self.out / "m.pth.objects.pth"

    def source(self, unsafe=True):
        directory = Directory(self.folder / ("unsafe" if unsafe else "safe"))
        directory.object("step", 7)
        directory.tensor(*rows("net.w", (4,), [2], ["__0_0.distcp", "__1_0.distcp"]), path=("net", "w"))
        directory.object("net.note", UNSAFE if unsafe else "n", path=("net", "note"))
        directory.object("list.0", UNSAFE if unsafe else 0, path=("list", 0))
        directory.tensor(*rows("list.1", (2,), [], ["__1_0.distcp"]), path=("list", 1))
        directory.object("list.2", 2, path=("list", 2))
        directory.object("only.objects", UNSAFE if unsafe else 1, path=("only", "objects"))
        return directory.write()

    def consolidate(self, source, *arguments):
        return self.cairn("consolidate", source, self.target, *arguments)

    def test_flat_names_are_the_keys(self):
        self.assert_success(self.consolidate(self.source(unsafe=False), "--flat"))
        names = ["step", "net.w", "net.note", "list.0", "list.1", "list.2", "only.objects"]
        self.assertEqual(sorted(state_of(self.target)), sorted(names))

    def test_keep_names_the_object_and_its_global(self):
        result = self.assert_success(self.consolidate(self.source(), "--json"), notes=True)
        warnings = json.loads(result.stdout)["warnings"]
        self.assertEqual(len(warnings), 3)
        self.assertTrue(all("collections.deque" in w and "weights_only=False" in w for w in warnings), warnings)
        self.assertEqual(state_of(self.target)["net"]["note"], UNSAFE)
        self.assert_only(self.out, "m.pth")

    def test_drop_leaves_out_what_only_objects_need(self):
        result = self.assert_success(self.consolidate(self.source(), "--objects", "drop", "--json"), notes=True)
        report = json.loads(result.stdout)
        self.assertEqual(state_of(self.target), {"net": {"w": "tensor 0"}, "list": [None, "tensor 1"]})
        self.assertEqual(len(report["skipped"]), 5)
        self.assertIn("net.note", " ".join(report["skipped"]))
        self.assertEqual(report["warnings"], [])
        self.assertEqual([(o["tensors"], o["objects"]) for o in report["outputs"]], [(2, 0)])

    def test_dropping_many_says_a_few(self):
        directory = Directory(self.folder / "many")
        for i in range(50):
            directory.object(f"o{i}", i)
        result = self.assert_success(self.consolidate(directory.write(), "--objects", "drop"), notes=True)
        self.assertEqual(result.stderr.count(b"\n"), 11)
        self.assertIn(b"40 more", result.stderr)

    def test_safe_puts_the_others_into_a_second_file(self):
        result = self.assert_success(self.consolidate(self.source(), "--objects", "safe", "--json"), notes=True)
        report = json.loads(result.stdout)
        self.assertEqual(state_of(self.target), {"step": 7, "net": {"w": "tensor 0"}, "list": [None, "tensor 1", 2]})
        self.assertEqual(state_of(self.beside), {"net": {"note": UNSAFE}, "list": [UNSAFE], "only": {"objects": UNSAFE}})
        self.assertEqual([(o["path"], o["bytes"], o["tensors"], o["objects"]) for o in report["outputs"]],
                         [(str(self.target), self.target.stat().st_size, 2, 2), (str(self.beside), self.beside.stat().st_size, 0, 3)])
        self.assertEqual(report["written_bytes"], self.target.stat().st_size + self.beside.stat().st_size)
        self.assertTrue(all(str(self.beside) in w for w in report["warnings"]), report["warnings"])
        self.assertEqual(zipfile.ZipFile(self.beside).namelist()[0], "m.pth.objects/data.pkl")
        self.assert_only(self.out, "m.pth", "m.pth.objects.pth")

    def test_safe_and_flat(self):
        self.assert_success(self.consolidate(self.source(), "--objects", "safe", "--flat"), notes=True)
        self.assertEqual(list(state_of(self.beside)), ["net.note", "list.0", "only.objects"])

    def test_safe_without_unsafe_objects_is_keep(self):
        source = self.source(unsafe=False)
        self.assert_success(self.consolidate(source, "--objects", "safe"))
        self.assert_only(self.out, "m.pth")
        kept = self.folder / "kept" / "m.pth"
        self.assert_success(self.cairn("consolidate", source, kept))
        self.assertEqual(self.target.read_bytes(), kept.read_bytes())

    def test_an_old_second_file_that_is_not_needed_is_left_and_named(self):
        self.out.mkdir()
        self.beside.write_bytes(b"old")
        result = self.assert_success(self.consolidate(self.source(unsafe=False), "--objects", "safe"), notes=True)
        self.assertIn(str(self.beside), result.stderr.decode())
        self.assertEqual(self.beside.read_bytes(), b"old")

    def test_either_output_in_the_way_is_found_before_anything_is_written(self):
        source = self.source()
        self.out.mkdir()
        self.beside.write_bytes(b"old")
        self.assert_fails(self.consolidate(source, "--objects", "safe"), 1, r"m\.pth\.objects\.pth")
        self.assert_only(self.out, "m.pth.objects.pth")
        self.assertEqual(self.beside.read_bytes(), b"old")
        self.assert_success(self.consolidate(source, "--objects", "safe", "--overwrite"), notes=True)
        self.assert_success(self.consolidate(source, "--objects", "safe", "--overwrite"), notes=True)
        self.assertEqual(state_of(self.beside)["only"], {"objects": UNSAFE})
        self.assert_only(self.out, "m.pth", "m.pth.objects.pth")

    def test_leftovers_of_either_are_settled_by_overwrite(self):
        source = self.source()
        self.out.mkdir()
        part_of(self.beside).write_bytes(b"x")
        self.assert_fails(self.consolidate(source, "--objects", "safe"), 1, "killed")
        self.assert_only(self.out, part_of(self.beside).name)
        self.assert_success(self.consolidate(source, "--objects", "safe", "--overwrite"), notes=True)
        self.assert_only(self.out, "m.pth", "m.pth.objects.pth")

    def test_neither_output_reaches_into_the_source_by_a_link(self):
        source = self.source()
        shard = source / "__0_0.distcp"
        before = shard.read_bytes()
        self.out.mkdir()
        for link in (self.target, self.beside):
            os.symlink(shard, link)
            self.assert_fails(self.consolidate(source, "--objects", "safe", "--overwrite"), 1, "inside the checkpoint")
            self.assertEqual(shard.read_bytes(), before)
            link.unlink()

    def test_ranks_make_the_same_two_files(self):
        source = self.source()
        self.assert_success(self.consolidate(source, "--objects", "safe"), notes=True)
        many = self.folder / "many" / "m.pth"
        self.assert_success(self.mpirun(3, "consolidate", source, many, "--objects", "safe"), notes=True)
        self.assertEqual(many.read_bytes(), self.target.read_bytes())
        self.assertEqual(many.with_name("m.pth.objects.pth").read_bytes(), self.beside.read_bytes())

    def test_payloads_are_aligned_as_asked(self):
        for alignment in (64, 128, 4096, 32768):
            self.assert_success(self.consolidate(self.source(unsafe=False) if alignment == 64 else self.folder / "safe",
                                                 "--overwrite", "--align", alignment))
            with zipfile.ZipFile(self.target) as archive:
                self.assertIsNone(archive.testzip())
                self.assertEqual(archive.read("m/.storage_alignment"), str(alignment).encode())
                for entry in archive.infolist():
                    archive.fp.seek(entry.header_offset + 26)
                    lengths = [int.from_bytes(archive.fp.read(2), "little") for _ in range(2)]
                    self.assertEqual((entry.header_offset + 30 + sum(lengths)) % alignment, 0, entry.filename)


if __name__ == "__main__":
    unittest.main()
