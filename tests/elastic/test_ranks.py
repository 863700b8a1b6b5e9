# SPDX-License-Identifier: BSD-3-Clause
"""A job that is saved on N ranks and resumed on M goes on as if it had never stopped."""
import shutil
import unittest

from trainer import CAIRN, CliTest, assert_same_curve, command, described, run, train

COUNTS = (1, 2, 3, 4)
STEPS, STOP = 6, 3


class Ranks(CliTest):
    def test_the_curve_goes_on_across_every_pair_of_rank_counts(self):
        whole = {ranks: train(ranks, self.folder / f"whole{ranks}", "--steps", STEPS, "--save-every", STOP, "--no-sync") for ranks in COUNTS}
        for ranks, said in whole.items():
            self.assertEqual(sorted(said.losses), list(range(1, STEPS + 1)))
            self.assertEqual(said.saved, [STOP, STEPS])
            assert_same_curve(self, said.losses, whole[1].losses, exactly=ranks == 1)
        for saved in COUNTS:
            for resumed in COUNTS:
                with self.subTest(saved=saved, resumed=resumed):
                    self.check_pair(whole[saved].losses, saved, resumed)

    def check_pair(self, expected, saved, resumed):
        tree = self.folder / "tree"
        shutil.copytree(self.folder / f"whole{saved}", tree)
        shutil.rmtree(tree / f"iter_{STEPS:09d}")
        said = train(resumed, tree, "--steps", STEPS, "--no-sync")
        self.assertEqual(said.resumed_at, STOP)
        self.assertEqual(sorted(said.losses), list(range(STOP + 1, STEPS + 1)))
        assert_same_curve(self, said.losses, expected, exactly=saved == resumed)
        shutil.rmtree(tree)

    def test_eight_ranks_some_without_a_row_of_a_tensor(self):
        one = train(1, self.folder / "one", "--steps", 2, "--save-every", 1, "--no-sync")
        shutil.rmtree(self.folder / "one" / "iter_000000002")
        assert_same_curve(self, train(8, self.folder / "one", "--steps", 2, "--no-sync").losses, one.losses, exactly=False)

    def test_a_step_of_another_size_is_refused_on_all_ranks(self):
        train(2, self.folder / "job", "--steps", 1, "--no-sync")
        for ranks in (2, 3):
            done = run(command(ranks, self.folder / "job", "--steps", 2, "--no-sync", "--micro-batches", 25))
            self.assertEqual(done.returncode, 1, described(done))
            self.assertIn(b"24 micro-batches in a step, this one has 25", done.stderr)

    def test_a_new_stage_begins_with_the_average_of_another(self):
        train(2, self.folder / "first", "--steps", 4, "--no-sync")
        model = self.folder / "model.pth"
        self.assert_success(run([CAIRN, "consolidate", self.folder / "first", model, "--ema"]), notes=True)
        said = train(3, self.folder / "second", "--steps", 1, "--start-from", self.folder / "model_ema_fp32.pth", "--no-sync")
        self.assertEqual(said.resumed_at, 0)
        again = train(2, self.folder / "third", "--steps", 1, "--start-from", self.folder / "model_ema_fp32.pth", "--no-sync")
        assert_same_curve(self, again.losses, said.losses, exactly=False)
        self.assertLess(said.losses[1], train(1, self.folder / "fresh", "--steps", 1, "--no-sync").losses[1])


if __name__ == "__main__":
    unittest.main()
