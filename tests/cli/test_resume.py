# SPDX-License-Identifier: BSD-3-Clause
"""--resume from outside: what stays after a signal or a failure, what goes on, what is refused."""
import json
import os
import pathlib
import shutil
import signal
import tempfile
import unittest

import tiny_checkpoint
from program import MPI_ENV, PROGRAM, CliTest, children, described, finish, send, start_until_part

SIZE_MIB = 96
PART, JOURNAL = ".m.pth.cairn-part", ".m.pth.cairn-journal"


class Resume(CliTest):
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
        self.again = ["consolidate", self.source, self.target, "--resume"]

    def stop(self, number, *launcher):
        """A run that was ended by this signal with its journal begun."""
        for _ in range(10):
            process = start_until_part([*launcher, PROGRAM, *self.again, "--threads", "1"], self.target, bool(launcher))
            if process:
                self.addCleanup(lambda: process.poll() is None and process.kill())
                pids = children(process.pid) if launcher else [process.pid]
                send(pids, signal.SIGCONT)
                while process.poll() is None and not (self.out / JOURNAL).exists() and not self.target.exists():
                    pass
                send(pids, number)
                result = finish(process)
                if result.returncode != 0 and (self.out / JOURNAL).exists() and (self.out / PART).exists():
                    return result
            for path in self.out.iterdir():
                path.unlink()
        self.skipTest("the run ended each time before it could be stopped")

    def assert_goes_on(self, *more):
        self.assert_success(self.cairn(*self.again, *more))
        self.assert_only(self.out, "m.pth")
        plain = self.folder / "plain" / "m.pth"
        self.assert_success(self.cairn("consolidate", self.source, plain))
        self.assertEqual(self.target.read_bytes(), plain.read_bytes())

    def test_a_signal_leaves_what_the_same_command_continues(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name):
                result = self.stop(number)
                self.assertIn(result.returncode, (128 + number, -number), described(result))
                self.assertRegex(result.stderr, rb"continues .*m\.pth\.cairn-part")
                self.assert_only(self.out, PART, JOURNAL)
                self.assert_goes_on()
                shutil.rmtree(self.folder / "plain")
                self.target.unlink()

    def test_a_killed_run_goes_on(self):
        self.stop(signal.SIGKILL)
        self.assert_goes_on("--threads", "2", "--no-sync")

    def test_killed_ranks_go_on_alone_and_the_other_way_round(self):
        if not MPI_ENV:
            self.skipTest("built without MPI")
        self.stop(signal.SIGKILL, MPI_ENV, "mpirun", "-n", "3")
        self.assert_goes_on()
        self.target.unlink()
        self.stop(signal.SIGKILL)
        self.assert_success(self.mpirun(2, *self.again))
        self.assertEqual(self.target.read_bytes(), (self.folder / "plain" / "m.pth").read_bytes())

    def test_without_it_the_leftover_is_refused_and_overwrite_discards_both(self):
        self.stop(signal.SIGKILL)
        plain = ["consolidate", self.source, self.target]
        self.assert_fails(self.cairn(*plain), 1, "--overwrite", "--resume")
        self.assert_only(self.out, PART, JOURNAL)
        self.assert_success(self.cairn(*plain, "--overwrite"))
        self.assert_only(self.out, "m.pth")

    def test_what_changed_is_named_and_refused(self):
        self.stop(signal.SIGKILL)
        for options, words in ((["--flat"], ["--flat"]), (["--select", "w"], ["--select"]), (["--align", "128"], ["--align"])):
            self.assert_fails(self.cairn(*self.again, *options), 1, *words, "--overwrite without --resume")
        shard = self.source / "__1_0.distcp"
        before = shard.stat()
        os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        self.addCleanup(os.utime, shard, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.assert_fails(self.cairn(*self.again), 1, r"__1_0\.distcp", "modified")
        error = self.assert_json_error(self.cairn(*self.again, "--json"), 1, "mismatch")
        self.assertIn("__1_0.distcp", error["message"])
        self.assert_only(self.out, PART, JOURNAL)
        os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.assert_goes_on()

    def test_a_damaged_journal_is_refused(self):
        self.stop(signal.SIGKILL)
        journal = self.out / JOURNAL
        whole = journal.read_bytes()
        for damaged in (b"", whole[:20], whole[:50] + b"?" + whole[51:], b"x" + whole[1:]):
            journal.write_bytes(damaged)
            self.assert_fails(self.cairn(*self.again), 1, r"m\.pth\.cairn-journal", "--overwrite")
            self.assertEqual(journal.read_bytes(), damaged)
        journal.write_bytes(whole)
        self.assert_goes_on()

    def test_json_tells_how_much_was_there(self):
        report = json.loads(self.assert_success(self.cairn(*self.again, "--json")).stdout)
        self.assertEqual(report["resumed_bytes"], 0)
        self.assert_fails(self.cairn(*self.again), 1, "exists")


if __name__ == "__main__":
    unittest.main()
