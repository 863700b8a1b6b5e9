# SPDX-License-Identifier: BSD-3-Clause
"""Consolidates, or converts to a directory and back, what make_extremes.py makes; torch and zipfile read the result.
`saved`: a job saves such tensors, torch loads them.

    run_extremes.py records|large|file|saved --cairn PROGRAM --save-job PROGRAM [--env launch/env.sh]
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402

from compare import same_bytes  # noqa: E402
from make_extremes import LARGE, MARKS, RECORDS  # noqa: E402

CAP_MIB = 8
PIECE = 1 << 28
options = None


class Extreme(unittest.TestCase):
    kind = ""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cairn-extremes-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.source = self.folder / "source"
        subprocess.run([sys.executable, "-B", str(HERE / "make_extremes.py"), self.kind, str(self.source)], check=True)

    def cairn(self, *arguments, ranks=0):
        command = [options.cairn, *map(str, arguments)]
        if ranks:
            command = [options.env, "mpirun", "-n", str(ranks), *command]
        result = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL)
        self.assertEqual((result.returncode, result.stderr), (0, b""), command)
        return result.stdout

    def consolidate(self, label, *arguments, ranks=0):
        target = self.folder / label / "model.pth"
        report = json.loads(self.cairn("consolidate", "--json", "--no-sync", self.source, target, *arguments, ranks=ranks))
        self.assertEqual(report["skipped"], [])
        return target, report

    def assert_archive(self, path):
        with zipfile.ZipFile(path) as archive:
            self.assertIsNone(archive.testzip())
            return len(archive.infolist())


class Records(Extreme):
    kind = "records"

    def test_more_records_than_16_bits_count(self):
        target, _ = self.consolidate("solo", "--threads", "2")
        self.assertGreater(self.assert_archive(target), 65535)
        state = torch.load(target, weights_only=True)["t"]
        self.assertEqual(list(state), [str(i) for i in range(RECORDS)])
        self.assertTrue(torch.equal(torch.cat(list(state.values())), torch.arange(RECORDS)))
        together, _ = self.consolidate("ranks", "--threads", "1", ranks=3)
        self.assertTrue(same_bytes(target, together))


class Large(Extreme):
    kind = "large"

    def test_tensors_beyond_31_and_32_bits_and_beyond_the_memory_cap(self):
        self.cairn("verify", "--metadata-only", self.source)
        target, report = self.consolidate("solo", "--threads", "2", "--max-memory", f"{CAP_MIB}MiB")
        self.assertLessEqual(report["peak_rss_bytes"], (CAP_MIB + 40) << 20)
        self.assert_archive(target)
        state = torch.load(target, weights_only=True, mmap=True)
        self.assert_marks(state["large"], LARGE, MARKS)
        self.assert_marks(state["exact"], 2**31, {2**31 - 1: 7})
        self.assertTrue(torch.equal(state["after"], torch.arange(15.0).reshape(5, 3)))
        together, report = self.consolidate("ranks", "--threads", "1", "--max-memory", f"{CAP_MIB}MiB", ranks=3)
        self.assertLessEqual(report["peak_rss_bytes"], (CAP_MIB + 40) << 20)
        self.assertTrue(same_bytes(target, together))

    def assert_marks(self, tensor, size, marks):
        self.assertEqual(tuple(tensor.shape), (size,))
        found = {}
        for begin in range(0, size, PIECE):
            piece = tensor[begin:begin + PIECE]
            found.update({begin + int(at): int(piece[at]) for at in piece.nonzero()[:, 0]})
        self.assertEqual(found, marks)


class File(Large):
    kind = "file"

    def test_tensors_beyond_31_and_32_bits_and_beyond_the_memory_cap(self):
        """A torch file to a directory and back; where the shards are cut, nothing is a power of two."""
        self.check_marks(self.source)
        previous = self.source
        for target, words, ranks in (("dcp", ("--ranks", 3), 0), ("dcp2", ("--ranks", 2), 2), ("back.pth", (), 0)):
            report = json.loads(self.cairn("convert", "--json", "--no-sync", "--max-memory", f"{CAP_MIB}MiB", "--threads", 2, previous,
                                           self.folder / target, *words, ranks=ranks))
            self.assertLessEqual(report["peak_rss_bytes"], (CAP_MIB + 40) << 20)
            self.assertGreaterEqual(report["verified_bytes"], LARGE)
            if previous != self.source:
                shutil.rmtree(previous)  # room
            previous = self.folder / target
        self.assert_archive(previous)
        self.check_marks(previous)

    def check_marks(self, path):
        state = torch.load(path, weights_only=True, mmap=True)
        self.assert_marks(state["model"]["large"], LARGE, MARKS)
        self.assertEqual(state["step"], 3)


class Saved(Large):
    kind = "saved"

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cairn-extremes-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def test_tensors_beyond_31_and_32_bits_and_beyond_the_memory_cap(self):
        """One rank: items of 2 and 4 GiB. Three: shards that end at no power of two."""
        for ranks in (1, 3):
            directory = self.folder / f"saved{ranks}"
            subprocess.run([options.env, "mpirun", "-n", str(ranks), options.save_job, directory, "large"], check=True, stdout=subprocess.DEVNULL)
            verdict = json.loads(self.cairn("verify", "--json", directory))
            self.assertEqual((verdict["ok"], verdict["unchecked_items"]), (True, 0))
            self.assertGreaterEqual(verdict["checked_bytes"], LARGE + 2**31)
            for name, size, marks in (("large", LARGE, MARKS), ("exact", 2**31, {2**31 - 1: 7})):
                state = {name: torch.full((size,), 255, dtype=torch.uint8)}
                dcp.load(state, checkpoint_id=directory)
                self.assert_marks(state[name], size, marks)
            shutil.rmtree(directory)


KINDS = {"records": Records, "large": Large, "file": File, "saved": Saved}


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=tuple(KINDS))
    parser.add_argument("--cairn", required=True)
    parser.add_argument("--save-job")
    parser.add_argument("--env", default=str(HERE.parents[1] / "launch" / "env.sh"))
    return parser.parse_args()


if __name__ == "__main__":
    options = parse()
    torch.set_num_threads(1)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(KINDS[options.kind])
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
