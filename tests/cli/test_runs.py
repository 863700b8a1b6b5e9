# SPDX-License-Identifier: BSD-3-Clause
"""Runs that meet signals or each other."""
import json
import pathlib
import shutil
import signal
import tempfile
import unittest
import zipfile

import tiny_checkpoint
from program import MPI_ENV, PROGRAM, CliTest, described, finish, part_of, start_until_part

SIZE_MIB = 96


class Runs(CliTest):
    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="cairn-cli-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared, True)
        cls.source = tiny_checkpoint.large(cls.shared / "source", SIZE_MIB)

    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"
        self.out.mkdir()
        self.target = self.out / "m.pth"

    def start(self, *extra):
        """A run that is stopped while its temporary exists."""
        for _ in range(10):
            process = start_until_part([PROGRAM, "consolidate", self.source, self.target, "--threads", "1", *extra], self.target)
            if process:
                self.addCleanup(lambda: process.poll() is None and process.kill())
                return process
            self.target.unlink(missing_ok=True)
        self.skipTest("the run ended each time before it could be stopped")

    def resume(self, process):
        process.send_signal(signal.SIGCONT)
        return finish(process)

    def test_signals_remove_the_temporary_and_keep_the_old_output(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name):
                self.target.write_bytes(b"precious")
                process = self.start("--overwrite")
                process.send_signal(number)
                result = self.resume(process)
                self.assertIn(result.returncode, (128 + number, -number), described(result))
                self.assertEqual(self.target.read_bytes(), b"precious")
                self.assert_only(self.out, "m.pth")

    def test_a_signal_to_mpirun_leaves_the_old_output_or_a_whole_one(self):
        """mpirun wakes its ranks first and passes the signal on up to a second later: a run may end well before."""
        if not MPI_ENV:
            self.skipTest("built without MPI")
        command = [MPI_ENV, "mpirun", "-n", "2", PROGRAM, "consolidate", self.source, self.target, "--overwrite", "--threads", "1"]
        self.target.write_bytes(b"precious")
        for _ in range(10):
            process = start_until_part(command, self.target, under_launcher=True)
            if process:
                process.send_signal(signal.SIGTERM)
                result = finish(process)
                self.assertNotEqual(result.returncode, 0, described(result))
                if self.target.read_bytes() != b"precious":
                    self.assertIsNone(zipfile.ZipFile(self.target).testzip())
                return self.assert_only(self.out, "m.pth")
            self.target.write_bytes(b"precious")
        self.skipTest("the run ended each time before it could be stopped")

    def test_a_killed_run_leaves_a_part_that_overwrite_discards(self):
        process = self.start()
        process.kill()
        finish(process)
        self.assertTrue(part_of(self.target).exists())
        again = ["consolidate", self.source, self.target]
        self.assert_fails(self.cairn(*again), 1, "--overwrite")
        self.assert_success(self.cairn(*again, "--overwrite"))
        self.assert_only(self.out, "m.pth")

    def test_two_runs_at_once_do_not_meet(self):
        first = self.start()
        for extra in ([], ["--overwrite"]):
            second = self.cairn("consolidate", self.source, self.target, *extra)
            self.assert_fails(second, 1, "another|running|in use|locked")
        result = self.resume(first)
        self.assertEqual(result.returncode, 0, described(result))
        self.assert_only(self.out, "m.pth")
        self.assertGreater(self.target.stat().st_size, SIZE_MIB << 20)

    def test_buffers_stay_within_max_memory(self):
        result = self.assert_success(self.cairn("consolidate", "--json", "--no-sync", "--max-memory", "8MiB", self.source, self.target))
        self.assertLessEqual(json.loads(result.stdout)["peak_rss_bytes"], (8 + 40) << 20)


if __name__ == "__main__":
    unittest.main()
