# SPDX-License-Identifier: BSD-3-Clause
"""apps/elastic_training as the tests run it: a tiny model, its lines read."""
import os
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))

from program import CliTest, children, clean_environment, described, finish, run  # noqa: E402,F401

CAIRN = os.environ["CAIRN_PROGRAM"]
TRAINER = os.environ["CAIRN_TRAINER"]
ENV = os.environ["CAIRN_ENV"]
TINY = ("--layers", 1, "--width", 16, "--heads", 2, "--context", 12, "--micro-size", 1)
TOLERANCE = 1e-6  # relative, of losses on different numbers of ranks


class Said:
    """What one run said."""

    def __init__(self, text):
        self.text = text
        self.losses = {int(step): float(loss) for step, loss in re.findall(r"^step (\d+) loss (\S+)$", text, re.M)}
        self.saved = [int(number) for number in re.findall(r"^saved .*/iter_(\d+)$", text, re.M)]
        found = re.search(r"^resumed \S+ at step (\d+) on (\d+) ranks$", text, re.M)
        self.resumed_at = int(found[1]) if found else None


def command(ranks, directory, *options):
    return [ENV, "mpirun", "-n", ranks, TRAINER, directory, *TINY, *options]


def train(ranks, directory, *options, status=0):
    done = run(command(ranks, directory, *options), timeout=300)
    if done.returncode != status:
        raise AssertionError(described(done))
    return Said(done.stdout.decode())


def start(ranks, directory, log, *options):
    """The launcher's process; standard output goes to the file `log`."""
    with open(log, "wb") as out:
        return subprocess.Popen([str(part) for part in command(ranks, directory, *options)], env=clean_environment(), stdout=out,
                                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)


def wait_for(process, log, pattern, limit_s=120):
    """Whether the log came to say it while the process ran."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if re.search(pattern, log.read_text(), re.M):
            return True
        if process.poll() is not None:
            return False
        time.sleep(0.005)
    raise AssertionError(f"{log} does not say {pattern}: {log.read_text()}")


def ranks_of(process):
    """The ranks are the launcher's children."""
    return sorted(children(process.pid))


def assert_same_curve(test, found, expected, exactly):
    for step, loss in found.items():
        if exactly:
            test.assertEqual(loss, expected[step], f"step {step}")
        else:
            test.assertLessEqual(abs(loss - expected[step]), TOLERANCE * abs(expected[step]), f"step {step}")
