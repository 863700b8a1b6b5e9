# SPDX-License-Identifier: BSD-3-Clause
"""A job that saves all the time, killed at random moments and resumed on a random number of ranks.

CAIRN_KILLS: how many times. After each kill the tree holds every iteration that was said to be saved, or a later one, and
nothing half; the losses are those of a job that was never killed.
"""
import json
import os
import random
import re
import signal
import time
import unittest

from trainer import CAIRN, CliTest, Said, assert_same_curve, finish, ranks_of, run, start, train, wait_for
from program import send

KILLS = int(os.environ.get("CAIRN_KILLS", "10"))
RANKS = (1, 2, 3, 4)
STEPS = 60
OPTIONS = ("--steps", STEPS, "--save-every", 2, "--keep", 2)


class Kills(CliTest):
    def setUp(self):
        super().setUp()
        self.seed = int.from_bytes(os.urandom(4), "little")
        random.seed(self.seed)
        self.jobs = 0
        self.begin()

    def begin(self):
        self.jobs += 1
        self.tree, self.newest = self.folder / f"job{self.jobs}", None

    def test_no_kill_loses_a_checkpoint(self):
        expected = train(1, self.folder / "whole", "--steps", STEPS, "--save-every", STEPS, "--no-sync").losses
        for number in range(KILLS):
            with self.subTest(kill=number, seed=self.seed):
                said = self.run_and_kill(random.choice(RANKS), random.choice(("one", "all")))
                self.check_tree(said)
                assert_same_curve(self, said.losses, expected, exactly=False)
                if self.newest == STEPS:
                    self.begin()
        said = train(random.choice(RANKS), self.tree, *OPTIONS)
        assert_same_curve(self, said.losses, expected, exactly=False)
        if self.newest != STEPS:
            self.assertEqual(max(said.losses), STEPS)

    def run_and_kill(self, ranks, which):
        log = self.folder / "log"
        process = start(ranks, self.tree, log, *OPTIONS, *random.choice(((), ("--blocking",), ("--no-sync",))))
        if wait_for(process, log, "^step"):
            time.sleep(random.random() * 0.7)
        pids = ranks_of(process)
        send(pids if which == "all" else random.sample(pids, min(1, len(pids))), signal.SIGKILL)
        finish(process)
        said = Said(log.read_text())
        self.assertNotIn("passed over", said.text)
        for warning in re.findall("^warning: .*$", said.text, re.M):  # killed between the iteration's name and the pointer
            self.assertRegex(warning, "no pointer says|the pointer names an older iteration")
        if self.newest is not None:
            self.assertGreaterEqual(said.resumed_at, self.newest, said.text)
        return said

    def check_tree(self, said):
        promised = max([*said.saved, self.newest or -1])
        latest = run([CAIRN, "latest", self.tree, "--json", "--verify"])
        if latest.returncode != 0:
            self.assertEqual(promised, -1, latest.stderr)
            return
        report = json.loads(latest.stdout)
        self.assertEqual(report["skipped"], [])
        self.newest = report["iteration"]
        self.assertGreaterEqual(self.newest, promised)


if __name__ == "__main__":
    unittest.main()
