# SPDX-License-Identifier: BSD-3-Clause
"""consolidate --dry-run: what it tells, what it refuses, and that it makes nothing."""
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


if __name__ == "__main__":
    unittest.main()
