# SPDX-License-Identifier: BSD-3-Clause
"""DCP directories that were written in several runs, each killed, read by torch.

    run_resume.py --job RESUME_JOB --cairn CAIRN --env ENV.SH

torch saves a state; a slow conversion of it is killed, all ranks at once, when its journal has grown, on 1, 2 and 3 ranks in turns,
and continued on another number of them. The files are those of a run that nobody stopped, and torch reads the state in them.
"""
import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cli")]

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save  # noqa: E402

from compare import Comparison  # noqa: E402
from program import children, clean_environment, send  # noqa: E402

OPTIONS = argparse.Namespace()
TIMEOUT_S = 120
TURNS = ((1, 2, 3), (2, 3, 1), (3, 1, 2), (3, 3, 3))  # numbers of ranks: killed, killed, to the end


def state():
    random = torch.Generator().manual_seed(5)
    return {
        "net": {"w": torch.randn(3000, 1000, generator=random), "half": torch.randn(1500, 999, generator=random).bfloat16(),
                "long": torch.arange(1_500_001), "odd": torch.arange(7, dtype=torch.uint8), "empty": torch.zeros(0, 3), "scalar": torch.tensor(2.5)},
        "optim": {"state": [{"step": torch.tensor(3), "moments": torch.randn(1200, 700, generator=random)}], "lr": 0.125},
        "held": (torch.randn(400_000, generator=random), "a tensor in an object"),
        "epoch": 4,
    }


class Resumed(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.state = state()

    def command(self, ranks, source):
        return [OPTIONS.env, "mpirun", "-n", str(ranks), OPTIONS.job, str(source), str(self.folder / "out")]

    def to_the_end(self, ranks, source):
        """-> bytes of the payload that earlier runs had written."""
        done = subprocess.run(self.command(ranks, source), env=clean_environment(), capture_output=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return int(done.stdout)

    def kill(self, ranks, source):
        """Ends a run when some windows more are in the journal. False: it was over before."""
        process = subprocess.Popen(self.command(ranks, source), env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL)
        journal = self.folder / "out" / "..metadata.cairn-journal"
        begun = None
        while process.poll() is None:
            size = journal.stat().st_size if journal.exists() else None
            begun = size if begun is None else begun
            if size is not None and size > begun + 600:
                break
            time.sleep(0.002)
        send(children(process.pid), signal.SIGKILL)
        process.communicate(timeout=TIMEOUT_S)
        return process.returncode != 0

    def files(self):
        return {path.name: path.read_bytes() for path in (self.folder / "out").iterdir()}

    def clear(self):
        for path in (self.folder / "out").iterdir():
            path.unlink()

    def check(self, source):
        self.assertEqual(self.to_the_end(2, source), 0)
        expected = self.files()
        self.assertEqual(sorted(expected), [".metadata", "__0_0.distcp", "__1_0.distcp", "__2_0.distcp"])
        for turn in TURNS:
            with self.subTest(source=source.name, ranks=turn):
                self.clear()
                killed = [self.kill(ranks, source) for ranks in turn[:-1]]
                self.assertIn(True, killed)
                if not (self.folder / "out" / ".metadata").exists():
                    self.assertGreater(self.to_the_end(turn[-1], source), 1 << 20)
                self.assertTrue(self.files() == expected)
        self.compare()

    def compare(self):
        out = self.folder / "out"
        verified = subprocess.run([OPTIONS.cairn, "verify", "--strict", out], capture_output=True, timeout=TIMEOUT_S)
        self.assertEqual(verified.returncode, 0, verified.stderr)
        tensors = {f"net.{name}": torch.zeros_like(tensor) for name, tensor in self.state["net"].items()}
        dcp.load(tensors, checkpoint_id=out, no_dist=True)
        for name, tensor in tensors.items():
            self.assertTrue(torch.equal(tensor, self.state["net"][name.removeprefix("net.")]), name)
        dcp_to_torch_save(out, self.folder / "whole.pth")
        comparison = Comparison()
        comparison.same(torch.load(self.folder / "whole.pth", weights_only=False), self.state, "")
        self.assertEqual(comparison.faults, [])

    def test_a_directory(self):
        dcp.save(self.state, checkpoint_id=self.folder / "source", no_dist=True)
        self.check(self.folder / "source")

    def test_a_torch_file(self):
        torch.save(self.state, self.folder / "source.pth")
        self.check(self.folder / "source.pth")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for option in ("job", "cairn", "env"):
        parser.add_argument(f"--{option}", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
