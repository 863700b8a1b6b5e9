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
from program import MPI_ENV, PROGRAM, CliTest, children, described, finish, run, send, start_until_part

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


def six_tensors(path):
    """Of 16 MiB each, half of it on each of two ranks."""
    directory = tiny_checkpoint.Directory(path)
    half = 2 << 20
    for i in range(6):
        payload = bytes((i, 1, 2, 3)) * half
        directory.tensor(f"w{i}", "float32", (2 * half,), [((0,), (half,), "__0_0.distcp", payload), ((half,), (half,), "__1_0.distcp", payload)])
    return directory.write()


class ConvertResume(CliTest):
    """The same for what convert writes: (destination, options, its part that is waited for, its journal)."""

    INDEX = "model.safetensors.index.json"
    SHARDS = ("hub", ("--to", "safetensors", "--max-shard-size", "20MiB"), "model-00001-of-00006.safetensors", INDEX)
    FILE = ("m.safetensors", (), "m.safetensors", "m.safetensors")
    TORCH = ("m.pth", ("--cast", "bfloat16"), "m.pth", "m.pth")
    DCP = ("ckpt", ("--ranks", "3"), ".metadata", ".metadata")
    DCP_CAST = ("ckpt", ("--ranks", "2", "--cast", "w1=bfloat16"), ".metadata", ".metadata")

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="cairn-cli-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared, True)
        directory = six_tensors(cls.shared / "source")
        cls.sources = {"dcp": directory, "torch": cls.shared / "source.pth", "safetensors": cls.shared / "source.safetensors"}
        for kind in ("torch", "safetensors"):
            run([PROGRAM, "convert", directory, cls.sources[kind], "--no-sync"])

    def command(self, source, case):
        return ["convert", self.sources[source], self.folder / case[0], *case[1], "--quiet", "--resume"]

    def place(self, case):
        return self.folder if case[0] == case[2] else self.folder / case[0]

    def stop(self, source, case, *launcher):
        place = self.place(case)
        journal = place / f".{case[3]}.cairn-journal"
        for _ in range(10):
            process = start_until_part([*launcher, PROGRAM, *self.command(source, case), "--threads", "1"], place / case[2], bool(launcher))
            if process:
                self.addCleanup(lambda: process.poll() is None and process.kill())
                pids = children(process.pid) if launcher else [process.pid]
                send(pids, signal.SIGCONT)
                while process.poll() is None and not journal.exists() and not (place / case[3]).exists():
                    pass
                send(pids, signal.SIGKILL)
                if finish(process).returncode != 0 and journal.exists() and not (place / case[3]).exists():
                    return
            for path in (p for p in self.folder.rglob("*") if p.is_file()):
                path.unlink()
        self.skipTest("the run ended each time before it could be stopped")

    def assert_goes_on(self, source, case, cairn):
        self.assert_success(cairn(*self.command(source, case)))
        plain = self.folder / "plain"
        words = [word for word in self.command(source, case) if word != "--resume"]
        words[2] = plain / case[0]
        self.assert_success(self.cairn(*words))
        made = {p.name: p.read_bytes() for p in self.place(case).iterdir() if p.is_file()}
        expected = {p.name: p.read_bytes() for p in (plain if case[0] == case[2] else plain / case[0]).iterdir()}
        self.assertEqual(made.keys(), expected.keys())
        for name, content in expected.items():
            if name != ".metadata":  # which says where it is
                self.assertTrue(made[name] == content, name)

    def test_killed_runs_go_on(self):
        for source, case in (("dcp", self.SHARDS), ("torch", self.FILE), ("safetensors", self.SHARDS), ("torch", self.TORCH), ("safetensors", self.TORCH),
                             ("dcp", self.DCP), ("torch", self.DCP_CAST), ("safetensors", self.DCP)):
            with self.subTest(source=source, target=case[0]):
                self.stop(source, case)
                self.assert_goes_on(source, case, self.cairn)
                for path in self.folder.iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def test_killed_ranks_go_on_alone_and_the_other_way_round(self):
        if not MPI_ENV:
            self.skipTest("built without MPI")
        for case in (self.SHARDS, self.DCP):
            with self.subTest(target=case[0]):
                self.stop("dcp", case, MPI_ENV, "mpirun", "-n", "3")
                self.assert_goes_on("dcp", case, self.cairn)
                shutil.rmtree(self.folder / case[0]), shutil.rmtree(self.folder / "plain")
                self.stop("dcp", case)
                self.assert_goes_on("dcp", case, lambda *words: self.mpirun(2, *words))
                shutil.rmtree(self.folder / "plain")

    def test_another_job_is_refused_and_overwrite_begins_anew(self):
        self.stop("dcp", self.SHARDS)
        place = self.place(self.SHARDS)
        before = sorted(p.name for p in place.iterdir())
        again = self.command("dcp", self.SHARDS)
        for changed, words in ((["20MiB", "30MiB"], ["--max-shard-size"]), (["--quiet", "--flat"], ["--flat"])):
            command = [changed[1] if word == changed[0] else word for word in again]
            self.assert_fails(self.cairn(*command), 1, *words, "--overwrite without --resume")
        self.assert_fails(self.cairn(*again[:-1]), 1, "--resume")
        self.assertEqual(sorted(p.name for p in place.iterdir()), before)
        self.assert_success(self.cairn(*again[:-1], "--overwrite"))
        self.assertFalse([p.name for p in place.iterdir() if p.name.startswith(".")])

    def test_over_an_old_checkpoint_which_stays_until_the_end(self):
        place, again = self.place(self.SHARDS), self.command("dcp", self.SHARDS)
        self.assert_success(self.cairn("convert", self.sources["dcp"], place, "--to", "safetensors", "--max-shard-size", "40MiB"))
        old = sorted(p.name for p in place.iterdir())
        self.assert_fails(self.cairn(*again), 1, "exists")
        self.assertEqual(sorted(p.name for p in place.iterdir()), old)
        self.assert_success(self.cairn(*again, "--overwrite"))
        self.assert_only(place, *(f"model-0000{i}-of-00006.safetensors" for i in range(1, 7)), self.INDEX)
        self.assert_fails(self.cairn(*again), 1, "exists")
        report = json.loads(self.assert_success(self.cairn(*again, "--overwrite", "--json")).stdout)
        self.assertEqual(report["resumed_bytes"], 0)

    def test_a_directory_is_laid_out_anew_in_two_runs(self):
        """reshard, ended by a signal; what it leaves is no checkpoint."""
        place = self.folder / "ckpt"
        command = ["reshard", self.sources["dcp"], place, "--ranks", "3", "--quiet", "--resume"]
        shards = [f"__{rank}_0.distcp" for rank in range(3)]
        for _ in range(10):
            process = start_until_part([PROGRAM, *command, "--threads", "1"], place / ".metadata")
            if process:
                self.addCleanup(lambda: process.poll() is None and process.kill())
                process.send_signal(signal.SIGCONT)
                while process.poll() is None and not (place / "..metadata.cairn-journal").exists():
                    pass
                process.send_signal(signal.SIGTERM)
                result = finish(process)
                if result.returncode != 0 and (place / "..metadata.cairn-part").exists():
                    break
            shutil.rmtree(place, True)
        else:
            self.skipTest("the run ended each time before it could be stopped")
        if (place / shards[2]).exists():  # else it ended between the journal and the last shard
            self.assertRegex(result.stderr, rb"continues .*metadata\.cairn-part")
            self.assert_only(place, "..metadata.cairn-journal", "..metadata.cairn-part", *shards)
        self.assert_fails(self.cairn("verify", place), 1)
        self.assert_fails(self.cairn(*command[:-1]), 1, "--resume")
        self.assert_fails(self.cairn(*command[:4], "2", "--resume"), 1, "--ranks was '3' and is '2'")
        self.assert_success(self.cairn(*command))
        self.assert_only(place, ".metadata", *shards)
        self.assert_success(self.cairn("verify", "--strict", place))
        self.assert_fails(self.cairn(*command), 1, "there already")


if __name__ == "__main__":
    unittest.main()
