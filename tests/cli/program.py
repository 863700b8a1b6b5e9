# SPDX-License-Identifier: BSD-3-Clause
"""Runs the program under test and states what every command promises.

CAIRN_PROGRAM names the executable, CAIRN_ENV the wrapper for mpirun (empty: tests that need mpirun are skipped).
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import zipfile

PROGRAM = os.environ.get("CAIRN_PROGRAM", "cairn")
MPI_ENV = os.environ.get("CAIRN_ENV", "")
TIMEOUT_S = 60
LAUNCHER_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID")


def clean_environment(**extra):
    kept = {k: v for k, v in os.environ.items() if k not in LAUNCHER_VARIABLES}
    return kept | {k: str(v) for k, v in extra.items()}


def run(command, environment=None, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "timeout": TIMEOUT_S} | options
    return subprocess.run([str(part) for part in command], env=environment or clean_environment(), **options)


class CliTest(unittest.TestCase):
    maxDiff = 4000

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cairn-cli-"))
        self.folder.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.folder, True)

    def cairn(self, *arguments, **options):
        return run([PROGRAM, *arguments], **options)

    def mpirun(self, ranks, *arguments):
        if not MPI_ENV:
            self.skipTest("built without MPI")
        return run([MPI_ENV, "mpirun", "-n", ranks, PROGRAM, *arguments])

    def assert_success(self, result, notes=False):
        """Status 0, and an empty stderr unless notes are expected."""
        self.assertEqual(result.returncode, 0, described(result))
        if not notes:
            self.assertEqual(result.stderr, b"", described(result))
        return result

    def assert_fails(self, result, status, *words):
        """The status, one readable report on stderr with these words in it, and nothing on stdout."""
        self.assertEqual(result.returncode, status, described(result))
        said = result.stderr.decode("utf-8", "strict")
        self.assertTrue(said.strip(), f"silent failure: {described(result)}")
        for accident in ("terminate called", "std::", "Assertion", "AddressSanitizer", "Segmentation"):
            self.assertNotIn(accident, said)
        for word in words:
            self.assertRegex(said, f"(?i){word}")
        if result.stdout is not None:
            self.assertEqual(result.stdout, b"", described(result))
        return said

    def assert_json_error(self, result, status, kind=None):
        """--json: the error on stdout, the sentence on stderr."""
        self.assertEqual(result.returncode, status, described(result))
        self.assertTrue(result.stderr.strip(), described(result))
        error = json.loads(result.stdout)["error"]
        self.assertTrue(error["message"], error)
        if kind:
            self.assertEqual(error["kind"], kind, error)
        return error

    def assert_only(self, folder, *names):
        """Nothing but these is in the folder: no temporary, no journal."""
        self.assertEqual(sorted(p.name for p in pathlib.Path(folder).iterdir()), sorted(names))


def described(result):
    def tail(data):
        return (data or b"")[-2000:].decode("utf-8", "backslashreplace")

    command = " ".join(map(str, result.args))
    return f"{command}\nstatus {result.returncode}\nstdout: {tail(result.stdout)}\nstderr: {tail(result.stderr)}"


def part_of(target):
    target = pathlib.Path(target)
    return target.with_name(f".{target.name}.cairn-part")


def is_sized(part):
    """The temporary exists, is locked and has its final size: the run has claimed it."""
    try:
        return part.stat().st_size > 0
    except FileNotFoundError:
        return False


def children(pid):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(entry.name))
        except (OSError, IndexError):
            pass  # It ended meanwhile.
    return found


def start_until_part(command, target, under_launcher=False):
    """Starts the command and returns it, stopped, once it has claimed its temporary; None when it was over before that.
    Under a launcher the ranks are stopped, not the launcher."""
    process = subprocess.Popen([str(c) for c in command], env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if is_sized(part_of(target)):
            stopped = children(process.pid) if under_launcher else [process.pid]
            send(stopped, signal.SIGSTOP)
            if is_sized(part_of(target)) and process.poll() is None:
                return process
            send(stopped, signal.SIGCONT)
            break
        if process.poll() is not None:
            break
        time.sleep(0.0005)
    finish(process)
    return None


def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def finish(process):
    out, err = process.communicate(timeout=TIMEOUT_S)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def payload(archive, record):
    with zipfile.ZipFile(archive) as records:
        stem = records.namelist()[0].split("/")[0]
        return records.read(f"{stem}/{record}")
