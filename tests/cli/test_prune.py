# SPDX-License-Identifier: BSD-3-Clause
"""prune: what goes, what stays, what is said; readers; status."""
import fcntl
import json
import struct
import unittest

import tiny_tree
from program import CliTest

F_OFD_SETLK = 37


class Prune(CliTest):
    def setUp(self):
        super().setUp()
        self.root = tiny_tree.tree(self.folder / "checkpoints", (10, 20, 30, 40))

    def at(self, *numbers):
        return [str(self.root / tiny_tree.name(number)) for number in numbers]

    def assert_left(self, *numbers):
        self.assert_only(self.root, "latest_checkpoint.txt", *(tiny_tree.name(number) for number in numbers))

    def assert_pruned(self, result, *numbers, notes=False):
        self.assert_success(result, notes)
        self.assertEqual(result.stdout.decode().split(), self.at(*numbers))
        return result.stderr.decode()

    def test_the_newest_stay_and_the_removed_are_printed(self):
        self.assert_pruned(self.cairn("prune", "--dry-run", self.root, "--keep", 2), 20, 10)
        self.assert_left(10, 20, 30, 40)
        self.assert_pruned(self.cairn("prune", self.folder, "--keep", 2), 20, 10)
        self.assert_left(30, 40)
        self.assert_pruned(self.cairn("prune", self.root, "--keep", 2))

    def test_every_kth_and_the_pointed_one_stay(self):
        (self.root / "latest_checkpoint.txt").write_text(tiny_tree.name(10))
        self.assert_pruned(self.cairn("prune", self.root, "--keep", 1, "--keep-every", 20), 30)
        self.assert_left(10, 20, 40)

    def test_broken_ones_are_reported_and_stay(self):
        (self.root / tiny_tree.name(40) / "optim/.metadata").unlink()
        said = self.assert_pruned(self.cairn("prune", self.root, "--keep", 1), 20, 10, notes=True)
        self.assertIn("iter_000000040: not complete, left alone: optim/ has no .metadata", said)
        self.assert_left(30, 40)

    def test_the_last_complete_one_stays(self):
        for number in (20, 30, 40):
            (self.root / tiny_tree.name(number) / "model/.metadata").unlink()
        self.assert_pruned(self.cairn("prune", self.root, "--keep", 1), notes=True)
        self.assert_left(10, 20, 30, 40)

    def test_what_is_read_stays(self):
        with open(self.root / tiny_tree.name(20) / "model/.metadata", "rb") as reader:
            fcntl.fcntl(reader, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0))
            said = self.assert_pruned(self.cairn("prune", self.root, "--keep", 1), 30, 10, notes=True)
            self.assertIn("iter_000000020: not removed: somebody reads it", said)
        self.assert_pruned(self.cairn("prune", self.root, "--keep", 1), 20)

    def test_leftovers_of_a_killed_run_go(self):
        (self.root / tiny_tree.name(10)).rename(self.root / ".iter_000000010.cairn-removed")
        self.assert_pruned(self.cairn("prune", self.root, "--keep", 5))
        self.assert_left(20, 30, 40)

    def test_under_mpi_one_rank_removes(self):
        self.assert_pruned(self.mpirun(2, "prune", self.root, "--keep", 1), 30, 20, 10)
        self.assert_left(40)

    def test_json(self):
        (self.root / tiny_tree.name(20) / "optim/.metadata").unlink()
        found = json.loads(self.assert_success(self.cairn("prune", "--json", self.root, "--keep", 1), notes=True).stdout)
        self.assertEqual(found["removed"], self.at(30, 10))
        self.assertEqual(found["kept"], self.at(40))
        self.assertEqual([one["path"] for one in found["broken"]], self.at(20))
        self.assertEqual((found["in_use"], found["failed"], found["warnings"]), ([], [], []))

    def test_words(self):
        self.assert_fails(self.cairn("prune", self.root), 2, "--keep")
        for number in ("0", "-1", "x", ""):
            self.assert_fails(self.cairn("prune", self.root, f"--keep={number}"), 2, "keep")
        self.assert_fails(self.cairn("prune", "--keep", 1), 2, "ROOT")
        self.assert_fails(self.cairn("prune", self.folder / "absent", "--keep", 1), 1, "no such directory")
        self.assert_left(10, 20, 30, 40)


if __name__ == "__main__":
    unittest.main()
