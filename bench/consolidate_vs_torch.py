# SPDX-License-Identifier: BSD-3-Clause
"""Whole commands, interleaved in one run: torch's consolidation, cairn's, and `cat` of the shards as the floor.

    consolidate_vs_torch.py [--gib 2] [--ranks 4] [--rounds 5] [--dir FOLDER] [--cairn PROGRAM] [--python VENV_PYTHON]

Nothing is synced by any of them. Prints a Markdown table and one JSON line. docs/benchmarks.md explains the method.
"""
import common
import report
from commands import Commands, Sources


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--without-torch", action="store_true", help="compare with cat alone")
    options = parser.parse_args()
    with common.work_folder(options.dir) as folder:
        commands, target = Commands(options), folder / "model.pth"
        source = Sources(options, folder).get("dim0", int(options.gib * common.GIB))
        contenders = {
            "cairn, 2 threads": commands.consolidate(source, target, "--no-sync"),
            "cairn, mpirun -n 2": commands.consolidate_ranks(source, target),
            "cat of the shards": commands.cat(source, target),
        }
        ratios = {"time of cat ×": ("cat of the shards", lambda base, mine: mine / base)}
        if not options.without_torch:
            contenders = {"dcp_to_torch_save": commands.torch(source, target)} | contenders
            ratios["faster than torch ×"] = "dcp_to_torch_save", lambda base, mine: base / mine
        found = common.interleave(contenders, options.rounds, lambda: common.warm(source), target)
        report.compare("consolidate_vs_torch", found, 0, ratios, options, gib=options.gib)


if __name__ == "__main__":
    main()
