# SPDX-License-Identifier: BSD-3-Clause
"""Jobs that save in the background, killed while they do, and gone on from by another number of ranks.

CAIRN_PROGRAM is mpi_tests/async_job, CAIRN_ROUNDS says how often each number of ranks is tried.
"""
import os
import random
import signal
import subprocess
import time
import unittest

from program import MPI_ENV, PROGRAM, CliTest, children, clean_environment, finish, run, send

ROUNDS = int(os.environ.get("CAIRN_ROUNDS", "1"))
RANKS = (1, 2, 4)


def numbers(output, word):
    return [int(line.split()[1]) for line in output.decode().splitlines() if line.startswith(word)]


class KilledSaves(CliTest):
    def command(self, ranks, *words):
        return [MPI_ENV, "mpirun", "-n", str(ranks), PROGRAM, str(self.folder / "checkpoints"), *words]

    def kill(self, ranks, which):
        """Starts a job, and kills one rank or all some time after its first save. -> what it said."""
        process = subprocess.Popen(self.command(ranks), env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL, bufsize=0)
        said = process.stdout.readline() + process.stdout.readline()
        time.sleep(random.random() * 0.3)
        pids = sorted(children(process.pid))
        send(pids if which == "all" else random.sample(pids, min(1, len(pids))), signal.SIGKILL)
        result = finish(process)
        self.assertNotEqual(result.returncode, 0)
        return said + result.stdout

    def test_what_was_said_to_be_saved_is_there(self):
        seed = int.from_bytes(os.urandom(4), "little")
        random.seed(seed)
        last = 0
        for _ in range(ROUNDS):
            for ranks, which in zip(RANKS, ("all", "one", "all")):
                with self.subTest(ranks=ranks, killed=which, seed=seed):
                    said = self.kill(ranks, which)
                    self.assertGreaterEqual(numbers(said, "from")[0], last)
                    saved = max(numbers(said, "saved"))
                    result = self.assert_success(run(self.command(random.choice(RANKS), "once")))
                    self.assertGreaterEqual(numbers(result.stdout, "from")[0], saved)
                    last = numbers(result.stdout, "saved")[0]
        left = sorted(path.name for path in (self.folder / "checkpoints").iterdir())
        self.assertEqual(left, [f"iter_{last - 1:09}", f"iter_{last:09}", "latest_checkpoint.txt"])


if __name__ == "__main__":
    unittest.main()
