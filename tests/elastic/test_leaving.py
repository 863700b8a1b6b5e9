# SPDX-License-Identifier: BSD-3-Clause
"""A job that is told to leave saves, and exits with a status of its own."""
import os
import signal
import unittest

from trainer import CliTest, Said, described, finish, ranks_of, start, train, wait_for

PREEMPTED = 75


class Leaving(CliTest):
    def told(self, number, *options):
        """A job on 2 ranks of which one gets the signal; what it said."""
        tree, log = self.folder / "tree", self.folder / "log"
        process = start(2, tree, log, "--steps", 100_000, "--save-every", 3, "--no-sync", *options)
        self.assertTrue(wait_for(process, log, "^saved"))
        os.kill(ranks_of(process)[-1], number)
        result = finish(process)
        self.assertEqual(result.returncode, PREEMPTED, described(result))
        return Said(log.read_text())

    def test_it_saves_once_more_and_goes_on_from_there(self):
        for number in (signal.SIGUSR1, signal.SIGTERM):
            with self.subTest(signal=number):
                said = self.told(number)
                last = max(said.losses)
                self.assertIn(f"told to leave after step {last}\n", said.text)
                self.assertEqual(said.saved[-1], last)
                self.assertEqual(train(3, self.folder / "tree", "--steps", last + 1, "--no-sync").resumed_at, last)

    def test_leaving_at_once_finishes_the_save_under_way(self):
        said = self.told(signal.SIGUSR1, "--leave-at-once")
        last = max(said.losses)
        self.assertEqual(said.saved[-1], last - last % 3 if last % 3 else said.saved[-1])
        self.assertGreaterEqual(said.saved[-1], last - 3)


if __name__ == "__main__":
    unittest.main()
