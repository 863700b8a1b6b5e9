# SPDX-License-Identifier: BSD-3-Clause
"""Every source times every sink, over one set of tensors and objects (battery_states.py).

    run_battery.py --cairn PROGRAM [--env launch/env.sh] [--source WORD] [--sink WORD] [--keep DIR]

Sources are written by their format's own library (battery_sources.py), on one process and on 3 ranks; what Cairn makes of each is read by
the result's own library and compared bit by bit with what was saved. Each conversion runs alone and on 3 MPI ranks: the same bytes.
"""
import argparse
import os
import pathlib
import shutil
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import torch  # noqa: E402

import battery_sinks  # noqa: E402
import battery_sources  # noqa: E402


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cairn", required=True, type=lambda p: str(pathlib.Path(p).resolve()))
    parser.add_argument("--env", default=str(HERE.parents[1] / "launch" / "env.sh"))
    parser.add_argument("--source", default="")
    parser.add_argument("--sink", default="")
    parser.add_argument("--keep", type=pathlib.Path)
    return parser.parse_args()


def main():
    options = parse()
    torch.set_num_threads(1)
    folder = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="cairn-battery-"))
    failures = 0
    try:
        (folder / "sources").mkdir(parents=True)
        for source in battery_sources.write_all(folder / "sources"):
            if options.source not in source.name:
                continue
            begin = time.monotonic()
            run = battery_sinks.Run(options, source, folder / source.name.replace(" ", "_"))
            run.all_sinks(options.sink)
            failures += len(run.faults)
            print(f"{'FAILED' if run.faults else 'ok':6} {source.name}, {run.conversions} conversions, {time.monotonic() - begin:.1f} s", flush=True)
            for fault in run.faults:
                print(f"       {fault}", flush=True)
            if not options.keep:
                shutil.rmtree(run.folder)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
