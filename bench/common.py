# SPDX-License-Identifier: BSD-3-Clause
"""Whole commands, interleaved: how everything in this folder is measured. docs/benchmarks.md says why so."""
import argparse
import contextlib
import ctypes
import dataclasses
import hashlib
import json
import os
import pathlib
import platform
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
GIB = 1 << 30
MIB = 1 << 20
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}


def parser(text):
    """With the options that every script of this folder has."""
    made = argparse.ArgumentParser(description=text.split("\n")[0])
    made.add_argument("--ranks", type=int, default=4, help="ranks that write the checkpoints")
    made.add_argument("--rounds", type=positive, default=5, help="measured rounds; one more goes first and is discarded")
    made.add_argument("--dir", default=ROOT / "build" / "tmp", type=pathlib.Path, help="where checkpoints and outputs go, for the time of the run")
    made.add_argument("--cairn", default=ROOT / "build" / "release" / "cairn", type=pathlib.Path)
    made.add_argument("--python", default=ROOT / "build" / "venv" / "bin" / "python", type=pathlib.Path, help="one that has torch")
    made.add_argument("--env", default=ROOT / "launch" / "env.sh", type=pathlib.Path, help="wraps mpirun")
    return made


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


@contextlib.contextmanager
def work_folder(parent):
    parent.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=parent)).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


PR_SET_CHILD_SUBREAPER = 36
# A process that replaces another begins with that one's peak: the command is the child of a shell, which is small, and becomes ours when that
# ends. It waits for that: what ends before its shell is gone to be waited for.
IN_BETWEEN = ["sh", "-c", '(exec 9>&-; read -r go <&8; exec "$@" 8<&-) & echo $! >&9', "sh"]


def run(command):
    """-> (seconds, peak RSS in bytes, output). The peak is that of the largest process of the command's tree that was waited for."""
    command = [str(part) for part in command]
    with tempfile.TemporaryFile() as output:
        started = time.monotonic()
        pid = start(command, output.fileno())
        try:
            _, status, usage = os.wait4(pid, 0)
        except BaseException:
            os.kill(pid, signal.SIGTERM)
            raise
        seconds = time.monotonic() - started
        output.seek(0)
        said = output.read(MIB).decode(errors="replace")
    if status != 0:
        sys.exit(f"{shlex.join(command)}\nfailed with {os.waitstatus_to_exitcode(status)}:\n{said[-3000:]}")
    return seconds, usage.ru_maxrss * 1024, said


def start(command, output):
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("this needs Linux")
    told, tell_fd = os.pipe()
    go_fd, go = os.pipe()
    with os.fdopen(told) as stream:
        actions = [(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2), (os.POSIX_SPAWN_DUP2, tell_fd, 9),
                   (os.POSIX_SPAWN_DUP2, go_fd, 8)]
        shell = os.posix_spawnp("sh", IN_BETWEEN + command, LOOPBACK | os.environ, file_actions=actions)
        os.close(tell_fd)
        os.close(go_fd)
        pid = int(stream.read())
    os.waitpid(shell, 0)
    os.close(go)
    return pid


@dataclasses.dataclass
class Contender:
    """compared: its output has to be that of the others that are compared."""

    command: list
    compared: bool = False


class Timings:
    def __init__(self):
        self.seconds, self.peak_rss_bytes, self.size, self.digest, self.outputs = [], 0, 0, None, []

    @property
    def median(self):
        return statistics.median(self.seconds)

    @property
    def output(self):
        """What the last run said."""
        return self.outputs[-1]

    def by_its_own_clock(self):
        """Of a command with --json: the seconds that it says it took, in place of those from its start to its end."""
        inner = Timings()
        inner.peak_rss_bytes = self.peak_rss_bytes
        inner.seconds = [json.loads(said)["seconds"] for said in self.outputs]
        return inner

    def as_json(self):
        return {"seconds": round(self.median, 4), "all_seconds": [round(s, 4) for s in self.seconds], "peak_rss_bytes": self.peak_rss_bytes}


def interleave(contenders, rounds, prepare, target=None, label=""):
    """-> {name: Timings}. Each command starts with `target` absent and nothing left to write back. Round 0 is discarded; it compares
    the outputs. Each round begins with another contender."""
    found = {name: Timings() for name in contenders}
    order = list(contenders)
    for number in range(rounds + 1):
        for name in order:
            os.sync()
            prepare()
            timings = found[name]
            seconds, peak, said = run(contenders[name].command)
            if number > 0:
                timings.seconds.append(seconds)
                timings.outputs.append(said)
                timings.peak_rss_bytes = max(timings.peak_rss_bytes, peak)
            elif target and contenders[name].compared:
                timings.digest = digest(target)
            if target:
                timings.size = sum(path.stat().st_size for path in files_of(target))
                remove(target)
        order = order[1:] + order[:1]
        tell(f"{label}round {number} of {rounds}{' (discarded)' if number == 0 else ''}", last=number == rounds)
    if len({t.digest for t in found.values() if t.digest}) > 1:
        sys.exit("the outputs differ: " + ", ".join(f"{name} {t.digest[:12]}" for name, t in found.items() if t.digest))
    return found


def remove(target):
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink()


def tell(text, last):
    """On a terminal one line that is written over."""
    if sys.stderr.isatty():
        print(f"\r{text:<60}", end="\n" if last else "", file=sys.stderr, flush=True)
    elif last:
        print(text, file=sys.stderr, flush=True)


def digest(path):
    """Of a file, or of all files of a folder."""
    total = hashlib.sha256()
    for part in files_of(path):
        with open(part, "rb") as stream:
            while piece := stream.read(MIB):
                total.update(piece)
    return total.hexdigest()


def files_of(place):
    """Those in a folder, or the file itself."""
    return sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]


def warm(folder):
    """Into the page cache, all of it."""
    buffer = bytearray(MIB)
    for path in files_of(folder):
        with open(path, "rb", buffering=0) as stream:
            while stream.readinto(buffer):
                pass


def cool(folder):
    """Out of the page cache: everything clean where that is allowed, else the folder's files."""
    try:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        for path in files_of(folder):
            with open(path, "rb") as stream:
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def file_system(path):
    best = ("", "unknown")
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        inside = str(path) == where or str(path).startswith(where.rstrip("/") + "/")
        if inside and len(where) >= len(best[0]):
            best = (where, kind)
    return best[1]


def machine(folder, cairn):
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    version = subprocess.run([cairn, "version"], capture_output=True, text=True).stdout.splitlines()
    return {"cores": len(os.sched_getaffinity(0)), "memory_gib": round(memory / GIB), "file_system": file_system(folder), "system": platform.system(),
            "kernel": platform.release().split("-")[0], "cairn": version[0] if version else "unknown"}


def gib(size):
    return f"{size / GIB:.3g} GiB" if size >= 0.1 * GIB else f"{size / MIB:.3g} MiB"
