# SPDX-License-Identifier: BSD-3-Clause
"""latest: what is printed, what is skipped and why, bad pointers, status."""
import json
import shutil
import unittest

import tiny_checkpoint
import tiny_tree
from program import CliTest


class Latest(CliTest):
    def setUp(self):
        super().setUp()
        self.root = tiny_tree.tree(self.folder / "checkpoints", (10, 20, 30))

    def at(self, number):
        return self.root / tiny_tree.name(number)

    def assert_latest(self, number, *arguments, root=None):
        result = self.cairn("latest", *arguments, root or self.root)
        self.assert_success(result, notes=True)
        self.assertEqual(result.stdout.decode(), f"{self.at(number)}\n")
        return result.stderr.decode()

    def test_the_newest_iteration_is_printed_and_nothing_else(self):
        for root in (self.root, self.folder):
            self.assertEqual(self.assert_latest(30, root=root), "")

    def test_newer_ones_are_skipped_with_the_reason(self):
        (self.at(30) / "optim/.metadata").unlink()
        shutil.rmtree(self.at(20))
        self.at(20).mkdir()
        said = self.assert_latest(10)
        lines = [line for line in said.splitlines() if "skipped" in line]
        self.assertEqual(len(lines), 2, said)
        self.assertRegex(lines[0], r"iter_000000030: skipped: optim/ has no \.metadata")
        self.assertRegex(lines[1], r"iter_000000020: skipped: holds no checkpoint")
        self.assertEqual(self.assert_latest(10, "--quiet"), "")

    def test_a_truncated_shard_is_found_without_reading_it(self):
        shard = self.at(30) / "model/__1_0.distcp"
        shard.write_bytes(shard.read_bytes()[:-1])
        self.assertIn("model/ is damaged", self.assert_latest(20))

    def test_bad_pointers_are_said_and_do_not_mislead(self):
        for pointer, word in (("iter_000000010", "older"), ("iter_000000099", "not there"), ("", "names no directory"),
                              ("iter_000000030\n", ""), ("iter_000000030\r\n", "")):
            with self.subTest(pointer=pointer):
                (self.root / "latest_checkpoint.txt").write_text(pointer)
                said = self.assert_latest(30)
                self.assertIn(word, said)
                self.assertEqual(said.count("\n"), 1 if word else 0, said)
        (self.root / "latest_checkpoint.txt").unlink()
        self.assertIn("no pointer", self.assert_latest(30))

    def test_the_path_is_data_and_what_is_said_is_not(self):
        root = self.folder / "other"
        name = "best\t\x1b[31m\n1"
        tiny_tree.tree(root, (10,))
        (root / tiny_tree.name(10)).rename(root / name)
        (root / "latest_checkpoint.txt").write_text(name)
        result = self.cairn("latest", root)
        self.assert_success(result, notes=True)
        self.assertEqual(result.stdout, f"{root}/{name}\n".encode())
        result = self.cairn("latest", "--json", root)
        self.assertNotIn(b"\x1b", result.stdout)
        self.assertEqual(json.loads(result.stdout)["path"], f"{root}/{name}")
        (root / name / "model/.metadata").unlink()
        result = self.cairn("latest", root)
        self.assertEqual((result.returncode, result.stdout), (1, b""))
        self.assertNotIn(b"\x1b", result.stderr)

    def test_verify_compares_crcs(self):
        tiny_tree.flip_last_byte_of_payload(self.at(30) / "trainer/__1_0.distcp")
        self.assertEqual(self.assert_latest(30), "")
        self.assertIn("trainer/ is damaged", self.assert_latest(20, "--verify"))
        result = self.assert_success(self.mpirun(2, "latest", "--verify", self.root), notes=True)
        self.assertEqual(result.stdout.decode(), f"{self.at(20)}\n")

    def test_steps_of_one_checkpoint_each(self):
        root = self.folder / "titan"
        for step in (9, 10, 100):
            tiny_checkpoint.small(root / f"step-{step}")
        result = self.assert_success(self.cairn("latest", root))
        self.assertEqual(result.stdout.decode(), f"{root}/step-100\n")

    def test_none_is_status_1(self):
        for number in (10, 20, 30):
            (self.at(number) / "model/.metadata").unlink()
        said = self.assert_fails(self.cairn("latest", self.root), 1, "no complete checkpoint")
        self.assertEqual(said.count("skipped: model/"), 3)
        self.assert_json_error(self.cairn("latest", "--json", self.root), 1, "not_found")
        (self.folder / "empty").mkdir()
        self.assert_fails(self.cairn("latest", self.folder / "empty"), 1, "no iterations")
        self.assert_fails(self.cairn("latest", self.folder / "absent"), 1, "no such directory")
        self.assert_fails(self.cairn("latest", self.at(10)), 1, "one checkpoint")

    def test_json(self):
        (self.at(30) / "optim/.metadata").unlink()
        found = json.loads(self.assert_success(self.cairn("latest", "--json", self.root), notes=True).stdout)
        self.assertEqual(found.pop("skipped"), [{"path": str(self.at(30)), "reason": "optim/ has no .metadata: its save did not finish"}])
        self.assertEqual(found, {"path": str(self.at(20)), "iteration": 20, "components": ["model", "optim", "trainer"], "warnings": []})

    def test_words(self):
        self.assert_fails(self.cairn("latest"), 2, "ROOT")
        self.assert_fails(self.cairn("latest", self.root, self.root), 2, "too many")
        self.assert_fails(self.cairn("latest", "s3://bucket/run"), 2, "URL")


if __name__ == "__main__":
    unittest.main()
