# SPDX-License-Identifier: BSD-3-Clause
"""The command lines that are measured, and the checkpoints they are given."""
import pathlib
import shlex

import common
from common import Contender


class Commands:
    def __init__(self, options):
        self.cairn, self.env = options.cairn.resolve(), options.env.resolve()
        # Not resolved: a virtual environment is known by the path of its link.
        self.theirs = [options.python.absolute(), "-B", "-W", "ignore", common.HERE / "theirs.py"]

    def consolidate(self, source, target, *extra):
        return Contender([self.cairn, "consolidate", source, target, "--threads", "2", *extra], compared=True)

    def consolidate_ranks(self, source, target):
        return Contender([self.env, "mpirun", "-n", "2", self.cairn, "consolidate", source, target, "--threads", "1", "--no-sync"], compared=True)

    def consolidate_written(self, source, target, mode, ranks):
        return Contender([self.env, "mpirun", "-n", str(ranks), self.cairn, "consolidate", source, target, "--no-sync", "--write", mode,
                          "--json", "--quiet"], compared=True)

    def ema(self, source, folder):
        return Contender([self.cairn, "consolidate", source, f"{folder}/", "--ema", "--threads", "2", "--no-sync", "--json", "--quiet"], compared=True)

    def torch_ema(self, source, folder):
        return Contender([*self.theirs, "ema", source, folder], compared=True)

    def torch(self, source, target):
        return Contender([*self.theirs, "consolidate", source, target], compared=True)

    def lightnings_own(self, source, target):
        return Contender([*self.theirs, "lightning", source, target])

    def to_dcp(self, source, target):
        return Contender([*self.theirs, "to_dcp", source, target])

    def reshard(self, source, target, ranks):
        return Contender([self.cairn, "reshard", source, target, "--ranks", str(ranks), "--threads", "2", "--no-sync"])

    def convert(self, source, target, ranks):
        return Contender([self.cairn, "convert", source, target, "--to", "dcp", "--ranks", str(ranks), "--threads", "2", "--no-sync"])

    def to_safetensors(self, source, target, most):
        return Contender([self.cairn, "convert", source, target, "--to", "safetensors", "--max-shard-size", str(most), "--objects", "drop",
                          "--threads", "2", "--no-sync"], compared=True)

    def torch_to_safetensors(self, source, target, most):
        return Contender([*self.theirs, "to_safetensors", source, target, str(most)], compared=True)

    def to_file(self, source, target):
        return Contender([self.cairn, "convert", source, target, "--objects", "drop", "--threads", "2", "--no-sync"])

    def cat(self, source, target, synced=False):
        target = shlex.quote(str(target))
        return Contender(["sh", "-c", f"cat {shards(source)} > {target}" + (f" && sync {target}" if synced else "")])

    def ls(self, source):
        return Contender([self.cairn, "ls", source])

    def verify(self, source, threads=2):
        return Contender([self.cairn, "verify", source, "--threads", str(threads)])

    def verify_ranks(self, source):
        return Contender([self.env, "mpirun", "-n", "2", self.cairn, "verify", source, "--threads", "1"])

    def verify_structure(self, source):
        return Contender([self.cairn, "verify", "--metadata-only", source])

    def load(self, source):
        return Contender([*self.theirs, "load", source])

    def testzip(self, source):
        return Contender([*self.theirs, "testzip", source])


def shards(source):
    return " ".join(shlex.quote(str(path)) for path in common.files_of(source) if path.suffix in (".distcp", ".safetensors") or path == source)


class Sources:
    """Makes each checkpoint once. `given`, if any, stands for all of them."""

    def __init__(self, options, folder, given=None):
        self.python, self.ranks, self.folder = options.python.absolute(), options.ranks, folder
        self.given = pathlib.Path(given).resolve() if given else None

    def get(self, kind, *sizes):
        if self.given:
            return self.given
        path = self.folder / "-".join(["source", kind, *map(str, sizes)])
        if not path.exists():
            ranks = [self.ranks] if kind in ("dim0", "columns", "ema", "lightning") else []
            common.run([self.python, "-B", "-W", "ignore", common.HERE / "make_checkpoint.py", kind, path, *ranks, *sizes])
        return path
