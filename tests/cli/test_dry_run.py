# SPDX-License-Identifier: BSD-3-Clause
"""--dry-run of consolidate, convert and reshard: what it tells, what it refuses, and that it makes nothing."""
import fcntl
import json
import os
import unittest

import tiny_checkpoint
from program import CliTest, described, part_of


class DryRun(CliTest):
    def setUp(self):
        super().setUp()
        self.source = tiny_checkpoint.small(self.folder / "source")
        self.target = self.folder / "new" / "deep" / "m.pth"

    def dry(self, *options):
        return self.cairn("consolidate", "--dry-run", self.source, self.target, *options)

    def rows(self, result, kind):
        lines = self.assert_success(result, notes=True).stdout.decode().splitlines()
        return [line.split("\t")[1:] for line in lines if line.startswith(kind + "\t")]

    def test_it_tells_names_types_sizes_and_makes_nothing(self):
        result = self.dry("--rename", "net=model", "--cast", "*.weight=bfloat16")
        self.assertEqual(self.rows(result, "tensor"), [
            ["net.weight", "model.weight", "float32", "bfloat16", "[5, 3]", "30"],
            ["net.bias", "model.bias", "float32", "float32", "[4]", "16"]])
        self.assertEqual([row[:2] for row in self.rows(result, "object")], [["step", "step"], ["note", "note"]])
        self.assert_only(self.folder, "source")

    def test_the_sizes_are_those_of_the_run(self):
        for options in ([], ["--flat"], ["--cast", "float16"], ["--objects", "drop"], ["--select", "net.*"]):
            with self.subTest(options=options):
                told = json.loads(self.assert_success(self.dry("--json", *options), notes=True).stdout)
                done = json.loads(self.cairn("consolidate", "--json", self.source, self.target, "--overwrite", *options).stdout)
                self.assertEqual([{k: output[k] for k in ("path", "bytes", "tensors", "objects")} for output in told["outputs"]],
                                 done["outputs"])
                self.assertEqual(self.target.stat().st_size, told["outputs"][0]["bytes"])
                self.target.unlink()
                self.assertGreater(told["outputs"][0]["free_bytes"], 0)

    def test_several_outputs_are_told_in_order(self):
        further = self.folder / "other" / "x.pth"
        result = self.dry("--output", f"{further}:select=net.*,strip-prefix=net")
        self.assertEqual([row[0] for row in self.rows(result, "output")], [str(self.target), str(further)])
        self.assertEqual(len(self.rows(result, "tensor")), 4)
        self.assert_only(self.folder, "source")

    def test_what_is_not_written_is_not_read(self):
        files = {row[0]: int(row[1]) for row in self.rows(self.dry("--select", "net.bias", "--objects", "drop"), "file")}
        self.assertEqual(list(files), ["__1_0.distcp"])

    def test_control_characters_are_escaped(self):
        directory = tiny_checkpoint.Directory(self.folder / "odd")
        self.source = directory.tensor(*tiny_checkpoint.rows("a\tb\n", (1,), [], ["f"])).write()
        self.assertEqual(self.rows(self.dry(), "tensor")[0][:2], ["a\\tb\\n"] * 2)

    def assert_refused_alike(self, *options):
        """The dry run first: it must leave everything as it was."""
        before = sorted(p.name for p in self.folder.rglob("*"))
        dry = self.dry(*options)
        self.assertEqual(sorted(p.name for p in self.folder.rglob("*")), before)
        real = self.cairn("consolidate", self.source, self.target, *options)
        self.assertNotEqual(real.returncode, 0, described(real))
        self.assertEqual((dry.returncode, dry.stdout), (real.returncode, b""), described(dry))
        return dry, real

    def assert_refused_equally(self, *options):
        dry, real = self.assert_refused_alike(*options)
        self.assertEqual(dry.stderr, real.stderr)

    def test_an_existing_output(self):
        self.target.parent.mkdir(parents=True)
        self.target.write_bytes(b"precious")
        self.assert_refused_equally()
        self.assert_success(self.dry("--overwrite"))
        self.assertEqual(self.target.read_bytes(), b"precious")

    def test_a_leftover_of_a_killed_run(self):
        self.target.parent.mkdir(parents=True)
        part_of(self.target).write_bytes(b"")
        self.assert_refused_equally()
        self.assert_success(self.dry("--overwrite"))
        self.assertTrue(part_of(self.target).exists())

    def test_names(self):
        for options in (["--select", "nothing"], ["--rename", "net.bias=net.weight"], ["--cast", "step=float16"],
                        ["--output", f"{self.target}:flat"], ["--output", f"{self.target.parent}/./m.pth:select=net.*"],
                        ["--ema"], ["--align", "3"], ["--max-memory", "1MiB"]):
            with self.subTest(options=options):
                self.assert_refused_alike(*options)

    def test_damage_of_the_structure(self):
        shard = self.source / "__1_0.distcp"
        shard.write_bytes(shard.read_bytes()[:-1])
        self.assert_refused_equally()

    def test_places(self):
        os.mkfifo(self.folder / "fifo")
        for place in (self.source / "m.pth", self.source / "new" / "m.pth", self.folder / "fifo",
                      self.source / ".metadata" / "m.pth", self.folder / ".x.cairn-part"):
            with self.subTest(place=place):
                self.target = place
                self.assert_refused_alike()

    def test_ranks_share_the_bytes(self):
        for mode in ("shared", "gather"):
            with self.subTest(mode=mode):
                source = tiny_checkpoint.large(self.folder / mode, 8)
                result = self.mpirun(3, "consolidate", "--dry-run", "--json", "--write", mode, source, self.target)
                told = json.loads(self.assert_success(result, notes=True).stdout)
                self.assertEqual((told["write"], len(told["ranks"])), (mode, 3))
                self.assertEqual(sum(rank["written_bytes"] for rank in told["ranks"]), 8 << 20)
                self.assertGreaterEqual(sum(rank["read_bytes"] for rank in told["ranks"]), 8 << 20)
                self.assertEqual({file["rank"] is None for file in told["files"]}, {mode == "shared"})
                if mode == "gather":
                    self.assertEqual([rank["written_bytes"] for rank in told["ranks"]], [8 << 20, 0, 0])
                self.assertGreater(told["reading"]["measured_bytes"], 0)
        self.assertFalse(self.target.parent.exists())


class DryRunOfOtherVerbs(CliTest):
    """Into a directory, and into a file by convert."""

    def setUp(self):
        super().setUp()
        self.source = tiny_checkpoint.small(self.folder / "source")

    def both(self, *words, options=()):
        """(what the dry run told, what the run did), with nothing made by the first"""
        before = {p: p.stat().st_mtime_ns for p in self.folder.rglob("*")}
        told = json.loads(self.assert_success(self.cairn(*words, "--json", "--dry-run", *options), notes=True).stdout)
        self.assertEqual({p: p.stat().st_mtime_ns for p in self.folder.rglob("*")}, before)
        done = json.loads(self.assert_success(self.cairn(*words, "--json", *options), notes=True).stdout)
        return told, done

    def assert_same_outputs(self, told, done):
        self.assertEqual([{k: output[k] for k in ("path", "bytes", "tensors", "objects")} for output in told["outputs"]],
                         done["outputs"])

    def test_a_directory_has_the_size_that_was_told(self):
        target = self.folder / "new" / "deep"
        for words in (("reshard", "--ranks", 3), ("reshard", "--ranks", 2, "--dim", 1), ("convert",), ("convert", "--ranks", 5)):
            for options in ([], ["--flat"], ["--cast", "float16"], ["--objects", "drop"], ["--rename", "net=model"]):
                with self.subTest(words=words, options=options):
                    told, done = self.both(*words, self.source, target, options=["--overwrite", *options])
                    self.assert_same_outputs(told, done)
                    self.assertEqual(sum(p.stat().st_size for p in target.iterdir()), told["outputs"][0]["bytes"])

    def test_a_torch_file_has_the_size_that_was_told(self):
        self.assert_success(self.cairn("convert", self.source, self.folder / "a.pth"))
        for source in (self.source, self.folder / "a.pth"):
            for options in ([], ["--align", 4096], ["--objects", "safe"], ["--flat"]):
                with self.subTest(source=source.name, options=options):
                    self.assert_same_outputs(*self.both("convert", source, self.folder / "b.pth", options=["--overwrite", *options]))

    def test_names_are_told(self):
        result = self.cairn("reshard", "--ranks", 2, "--dry-run", self.source, self.folder / "out", "--rename", "net=model",
                            "--cast", "*.weight=bfloat16")
        lines = self.assert_success(result, notes=True).stdout.decode().splitlines()
        self.assertIn("tensor\tnet.weight\tmodel.weight\tfloat32\tbfloat16\t[5, 3]\t30", lines)
        self.assertIn("file\t__0_0.distcp", "\n".join(lines))

    def test_what_the_run_refuses_is_refused(self):
        there = self.folder / "there"
        self.assert_success(self.cairn("reshard", "--ranks", 1, self.source, there))
        before = sorted(self.folder.rglob("*"))
        for words in (("reshard", "--ranks", 2, self.source, there), ("convert", self.source, there),
                      ("convert", self.source, self.source / "in"), ("reshard", "--ranks", 2, self.source, self.source),
                      ("convert", self.source, self.folder / "n", "--select", "nothing"), ("convert", self.source, there / ".metadata"),
                      ("convert", self.folder / "absent", self.folder / "n")):
            with self.subTest(words=words):
                dry, real = self.cairn(*words, "--dry-run"), self.cairn(*words)
                self.assertEqual((dry.returncode, dry.stdout, dry.stderr), (real.returncode, b"", real.stderr))
                self.assertNotEqual(dry.returncode, 0)
                self.assertEqual(sorted(self.folder.rglob("*")), before)
        self.assert_success(self.cairn("reshard", "--ranks", 2, self.source, there, "--dry-run", "--overwrite"))

    def test_a_running_save_is_found(self):
        target = self.folder / "held"
        target.mkdir()
        with open(target / "..metadata.cairn-part", "w") as held:
            fcntl.lockf(held, fcntl.LOCK_EX)
            self.assert_fails(self.cairn("convert", self.source, target, "--dry-run"), 1, "another run")
        self.assert_success(self.cairn("convert", self.source, target, "--dry-run"))
        self.assert_only(target, "..metadata.cairn-part")

    def test_ranks_share_the_bytes(self):
        source = tiny_checkpoint.large(self.folder / "large", 8)
        for mode in ("shared", "gather"):
            with self.subTest(mode=mode):
                result = self.mpirun(3, "reshard", "--ranks", 2, "--dry-run", "--json", "--write", mode, source, self.folder / "x")
                told = json.loads(self.assert_success(result, notes=True).stdout)
                self.assertEqual((told["write"], sum(rank["written_bytes"] for rank in told["ranks"])), (mode, 8 << 20))
        self.assertFalse((self.folder / "x").exists())


if __name__ == "__main__":
    unittest.main()
