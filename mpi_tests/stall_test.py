# SPDX-License-Identifier: BSD-3-Clause
"""stall_test.py RANKS: ranks that get stuck are named with their phase, and nothing is published."""
import os
import pathlib
import re
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "cli"))

import tiny_checkpoint  # noqa: E402
from program import MPI_ENV, CliTest, described, part_of, run  # noqa: E402

RANKS = int(sys.argv.pop(1))
PROGRAM = os.environ["CAIRN_STALL_RUN"]
LIMIT_S = 3
SHARDS, SHARD_FLOATS = 8, 1 << 20


def checkpoint(path):
    directory = tiny_checkpoint.Directory(path)
    payload = bytes(4 * SHARD_FLOATS)
    pieces = [((i * SHARD_FLOATS,), (SHARD_FLOATS,), f"__{i}_0.distcp", payload) for i in range(SHARDS)]
    return directory.tensor("w", "float32", (SHARDS * SHARD_FLOATS,), pieces).write()


class Stall(CliTest):
    def setUp(self):
        super().setUp()
        self.source = checkpoint(self.folder / "source")
        (self.folder / "out").mkdir()
        self.target = self.folder / "out" / "m.pth"

    def start(self, what, rank, limit=LIMIT_S, mode="shared"):
        launcher = [MPI_ENV, "mpirun", "-n", RANKS] if RANKS > 1 else []
        return run([*launcher, PROGRAM, self.source, self.target, limit, what, rank, mode], timeout=300)

    def assert_named(self, result, rank, words):
        self.assertNotEqual(result.returncode, 0, described(result))
        said = [line for line in result.stderr.decode().splitlines() if "stalled: " in line]
        self.assertEqual(len(said), 1, described(result))
        who = rf"rank {rank} of {RANKS} \(.+\) has (made no progress|not answered)" if RANKS > 1 else "no progress"
        self.assertRegex(said[0], rf"{who} for \d+ s while {words}")
        self.assertEqual(len(re.findall(r"rank \d+ of", said[0])), 1 if RANKS > 1 else 0, said[0])
        self.assertFalse(self.target.is_file())
        return said[0]

    def ranks(self):
        return sorted({0, RANKS - 1})

    def test_a_stopped_rank_is_named(self):
        if RANKS == 1:
            self.skipTest("nobody is left to notice")
        for mode in ("shared", "gather"):
            for rank in self.ranks():
                with self.subTest(mode=mode, rank=rank):
                    said = self.assert_named(self.start("stop", rank, mode=mode), rank, "copying")
                    self.assertIn("not answered", said)
                    if rank == 0:
                        self.assertIn("--overwrite", said)
                    else:
                        self.assertIn("nothing is published", said)
                        self.assertFalse(part_of(self.target).exists())
                    part_of(self.target).unlink(missing_ok=True)

    def test_a_read_that_does_not_come_back_is_named_with_its_file(self):
        for rank in self.ranks():
            with self.subTest(rank=rank):
                said = self.assert_named(self.start("hold", rank), rank, "copying")
                self.assertRegex(said, r"no progress .*MB of .*MB, reading .*distcp.*nothing is published")
                self.assertFalse(part_of(self.target).exists())

    def test_planning_and_publishing_are_phases_too(self):
        said = self.assert_named(self.start("hold-metadata", 0), 0, "planning")
        self.assertIn(".metadata", said)
        said = self.assert_named(self.start("hold-rename", 0), 0, "publishing")
        self.assertIn("renaming", said)
        self.assertFalse(part_of(self.target).exists())

    def test_loads_and_saves_name_the_rank_too(self):
        for rank in self.ranks():
            with self.subTest(rank=rank):
                said = self.assert_named(self.start("hold", rank, mode="load"), rank, "reading")
                self.assertRegex(said, r"reading .*distcp.*tensors may hold a part")
                said = self.assert_named(self.start("hold-sync", rank, mode="save"), rank, "copying")
                self.assertIn("nothing is published", said)
                self.assertFalse((self.target / ".metadata").exists())
                shutil.rmtree(self.target)
        said = self.assert_named(self.start("hold-metadata", 0, mode="load"), 0, "planning")
        self.assertIn("no tensor has changed", said)
        if RANKS > 1:
            self.assertIn("not answered", self.assert_named(self.start("stop", RANKS - 1, mode="load"), RANKS - 1, "reading"))
        result = self.start("slow", RANKS - 1, mode="load")
        self.assertEqual((result.returncode, result.stderr), (0, b""), described(result))

    def test_a_slow_rank_is_not_named(self):
        """Its share takes longer than the limit, none of its reads does."""
        for mode in ("shared", "gather"):
            with self.subTest(mode=mode):
                result = self.start("slow", RANKS - 1, mode=mode)
                self.assertEqual(result.returncode, 0, described(result))
                self.assertEqual(result.stderr, b"", described(result))
                self.assertTrue(self.target.exists())
                self.target.unlink()


if __name__ == "__main__":
    unittest.main()
