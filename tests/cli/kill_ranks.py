# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of several ranks, of which one or all are killed at some time, continued by another number of ranks.

CAIRN_PROGRAM is mpi_tests/resume_job, CAIRN_ROUNDS says how often each case is tried.
"""
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

import tiny_checkpoint
from program import MPI_ENV, PROGRAM, CliTest, children, clean_environment, described, finish, run, send

ROUNDS = int(os.environ.get("CAIRN_ROUNDS", "1"))
RANKS = (1, 2, 4)
SIZE_MIB = 48  # of which a rank writes a window in 10 ms


class KilledRanks(CliTest):
    NAME = "m.pth"

    def setUp(self):
        super().setUp()
        self.source = tiny_checkpoint.large(self.folder / "source", SIZE_MIB)
        self.target = self.folder / "out" / self.NAME
        result = self.ranks(2)
        self.assertEqual(result.stdout.strip(), b"0", described(result))
        self.expected = self.made()
        self.remove()

    def last(self):
        """The file that appears last."""
        return self.target

    def made(self):
        return self.target.read_bytes()

    def remove(self):
        self.target.unlink()

    def assert_whole(self):
        self.assert_only(self.target.parent, self.target.name)

    def command(self, ranks):
        return [MPI_ENV, "mpirun", "-n", str(ranks), PROGRAM, str(self.source), str(self.target)]

    def ranks(self, count):
        return self.assert_success(run(self.command(count)))

    def kill(self, ranks, which):
        """Starts a job, and kills one rank or all when some bytes are written. False: it was over before."""
        process = subprocess.Popen(self.command(ranks), env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL)
        journal = self.last().with_name(f".{self.last().name}.cairn-journal")
        while not journal.exists() and process.poll() is None:
            time.sleep(0.002)
        time.sleep(random.random() * 0.01 * SIZE_MIB / ranks)
        pids = sorted(children(process.pid))
        send(pids if which == "all" else random.sample(pids, min(1, len(pids))), signal.SIGKILL)
        result = finish(process)
        if result.returncode == 0:
            self.assertTrue(self.made() == self.expected)
            self.remove()
        return result.returncode != 0

    def test_the_same_command_goes_on_with_any_number_of_ranks(self):
        seed = int.from_bytes(os.urandom(4), "little")
        random.seed(seed)
        resumed, kills = 0, 0
        for _ in range(ROUNDS):
            for ranks in RANKS:
                for which in ("one", "all"):
                    with self.subTest(ranks=ranks, killed=which, seed=seed):
                        kills += self.kill(ranks, which)
                        if self.last().exists():  # the kill came after the last rename
                            self.assertTrue(self.made() == self.expected)
                            self.remove()
                        result = self.ranks(random.choice(RANKS))
                        resumed += int(result.stdout)
                        self.assertTrue(self.made() == self.expected)
                        self.assert_whole()
                        self.remove()
        self.assertGreater(kills, 0)
        self.assertGreater(resumed, 0, "the journals told of nothing")


class KilledRanksOfSafetensors(KilledRanks):
    NAME = "m.safetensors"


class KilledRanksOfADirectory(KilledRanks):
    NAME = "ckpt"

    def last(self):
        return self.target / ".metadata"

    def made(self):
        return {path.name: path.read_bytes() for path in self.target.iterdir() if path.name != self.last().with_name("..metadata.cairn-journal").name}

    def remove(self):
        shutil.rmtree(self.target)

    def assert_whole(self):
        self.assert_only(self.target, ".metadata", "__0_0.distcp", "__1_0.distcp", "__2_0.distcp")


if __name__ == "__main__":
    unittest.main()
