# SPDX-License-Identifier: BSD-3-Clause
"""Whole commands, interleaved in one run: `cairn verify`, `cat` of the shards to /dev/null as the floor, and Python's
zipfile.testzip over every item of the same checkpoint, which compares the CRCs only.

    verify_vs_zipfile.py [--gib 2] [--small 0] [--ranks 4] [--rounds 5] [--dir FOLDER] [--cairn PROGRAM] [--python VENV_PYTHON]

Prints a Markdown table and one JSON line. docs/benchmarks.md explains the method.
"""
import common
import report
from commands import Commands, Sources


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--small", type=int, default=0, help="so many tensors of 4 KiB instead")
    options = parser.parse_args()
    with common.work_folder(options.dir) as folder:
        commands, sources = Commands(options), Sources(options, folder)
        source = sources.get("small", options.small) if options.small else sources.get("dim0", int(options.gib * common.GIB))
        contenders = {
            "cat to /dev/null": commands.cat(source, "/dev/null"),
            "cairn verify, 1 thread": commands.verify(source, threads=1),
            "cairn verify, 2 threads": commands.verify(source),
            "cairn verify, mpirun -n 2": commands.verify_ranks(source),
            "zipfile.testzip": commands.testzip(source),
        }
        ratios = {"time of cat ×": ("cat to /dev/null", lambda base, mine: mine / base),
                  "faster than testzip ×": ("zipfile.testzip", lambda base, mine: base / mine)}
        found = common.interleave(contenders, options.rounds, lambda: common.warm(source))
        size = sum(path.stat().st_size for path in common.files_of(source))
        report.compare("verify_vs_zipfile", found, size, ratios, options, bytes=size, small=options.small)


if __name__ == "__main__":
    main()
