# SPDX-License-Identifier: BSD-3-Clause
"""Paths that stand for a checkpoint below them: which one is taken, and what is said about it."""
import json
import unittest

import tiny_checkpoint
from program import CliTest, payload
from tiny_checkpoint import Directory, rows


def component(path, first):
    """A checkpoint whose one tensor tells which it is."""
    name, kind, shape, pieces = rows("w", (2,), [], ["__0_0.distcp"])
    Directory(path).tensor(name, kind, shape, [(o, s, f, tiny_checkpoint.numbered(first, 2)) for o, s, f, _ in pieces]).write()
    return path


class Parents(CliTest):
    def tree(self, root, pointer="iter_000000025"):
        for iteration, first in ((25, 100), (50, 200)):
            for i, part in enumerate(("model", "optim_net", "scheduler_net", "trainer", "extra")):
                component(root / "checkpoints" / f"iter_{iteration:09}" / part, first + i)
        (root / "checkpoints" / "latest_checkpoint.txt").write_text(pointer)
        return root

    def assert_taken(self, given, taken, first, *words):
        target = self.folder / "out" / "o.pth"
        result = self.assert_success(self.cairn("consolidate", "--overwrite", given, target), notes=True)
        said = result.stderr.decode()
        self.assertEqual(said.count("\n"), 1, said)
        for word in (str(taken), *words):
            self.assertIn(word, said)
        self.assertEqual(payload(target, "data/0"), tiny_checkpoint.numbered(first, 2))
        self.assert_success(self.cairn("consolidate", "--overwrite", "--quiet", given, target))
        listed = self.assert_success(self.cairn("ls", given), notes=True)
        self.assertEqual(listed.stdout, b"w\tfloat32\t[2]\t8\t1\n")
        self.assertIn(str(taken), listed.stderr.decode())

    def test_a_training_tree_and_its_iterations(self):
        root = self.tree(self.folder / "run")
        latest = root / "checkpoints" / "iter_000000025"
        self.assert_taken(root, latest / "model", 100, "training tree")
        self.assert_taken(root / "checkpoints", latest / "model", 100, "training tree")
        self.assert_taken(latest, latest / "model", 100, "iteration")
        self.assert_taken(root / "checkpoints" / "iter_000000050", root / "checkpoints/iter_000000050/model", 200)
        self.assertEqual(json.loads(self.cairn("ls", "--json", root).stdout)["format"], "tree")
        self.assertEqual(json.loads(self.cairn("ls", "--json", root).stdout)["path"], str(root))

    def test_a_pointer_may_end_in_any_line_end(self):
        for i, end in enumerate(("\n", "\r\n", " \n")):
            root = self.tree(self.folder / f"run{i}", "iter_000000025" + end)
            self.assert_taken(root, root / "checkpoints/iter_000000025/model", 100)

    def test_a_stale_or_broken_pointer_is_an_error_with_the_candidates(self):
        for i, pointer in enumerate(("iter_000000075", "../run/checkpoints/iter_000000025", "", "\0")):
            with self.subTest(pointer=pointer):
                root = self.tree(self.folder / f"run{i}", pointer)
                said = self.assert_fails(self.cairn("consolidate", root, self.folder / "o.pth"), 1, r"latest_checkpoint\.txt", "pass one of")
                self.assertIn(str(root / "checkpoints/iter_000000050"), said)
                self.assertIn(pointer if i == 0 else "names no directory", said)

    def test_an_accelerate_parent_says_where_the_optimizer_is(self):
        parent = self.folder / "checkpoint-10"
        component(parent / "pytorch_model_fsdp_0", 5)
        component(parent / "optimizer_0", 9)
        (parent / "scheduler.bin").write_bytes(tiny_checkpoint.torch_archive({}))
        self.assert_taken(parent, parent / "pytorch_model_fsdp_0", 5, "Accelerate", str(parent / "optimizer_0"))

    def test_a_parent_of_one(self):
        component(self.folder / "a" / "b" / "step-1000", 3)
        (self.folder / "a" / "notes.txt").write_text("x")
        self.assert_taken(self.folder / "a", self.folder / "a/b/step-1000", 3)

    def test_a_step_that_is_a_checkpoint_is_taken_silently(self):
        step = component(self.folder / "step-1000", 3)
        self.assert_success(self.cairn("consolidate", step, self.folder / "o.pth"))

    def test_a_parent_of_several_lists_them(self):
        for step in (10, 20):
            component(self.folder / "run" / f"step-{step}", step)
        for command in (["ls"], ["consolidate"]):
            words = [self.folder / "o.pth"] if command == ["consolidate"] else []
            said = self.assert_fails(self.cairn(*command, self.folder / "run", *words), 1, "pass one of")
            for step in (10, 20):
                self.assertIn(str(self.folder / "run" / f"step-{step}"), said)
        self.assertEqual(self.assert_json_error(self.cairn("ls", "--json", self.folder / "run"), 1)["kind"], "not_found")

    def test_the_output_may_lie_beside_the_model_but_not_in_it(self):
        root = self.tree(self.folder / "run")
        self.assert_success(self.cairn("consolidate", root, root / "model.pth"), notes=True)
        self.assert_fails(self.cairn("consolidate", root, root / "checkpoints/iter_000000025/model/model.pth"), 1, "inside")

    def test_verify_takes_every_component(self):
        root = self.tree(self.folder / "run")
        result = self.assert_success(self.cairn("verify", "--metadata-only", root), notes=True)
        for part in ("model", "optim_net", "scheduler_net", "trainer", "extra"):
            self.assertIn(str(root / "checkpoints/iter_000000025" / part), result.stderr.decode())
        (root / "checkpoints/iter_000000025/extra/__0_0.distcp").unlink()
        self.assertEqual(self.cairn("verify", "--metadata-only", root).returncode, 1)


if __name__ == "__main__":
    unittest.main()
