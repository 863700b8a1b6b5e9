# SPDX-License-Identifier: BSD-3-Clause
"""Writes the golden directories with real torch: one launch per rank count, all its cases in it.

    make_golden.py OUT

OUT gets per case the directory NAME, torch's own consolidation of it, NAME.ref/model.pth (or the value that the case expects, where
torch's converter fails), and `manifest.json`; a stamp of the sources and of torch's version makes a second run a no-op.
"""
import hashlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

HERE = pathlib.Path(__file__).resolve().parent


def stamp():
    """Cheap: asked before torch is imported."""
    digest = hashlib.sha256()
    for name in ("golden_types.py", "golden_cases.py", "make_golden.py"):
        digest.update((HERE / name).read_bytes())
    import importlib.metadata
    digest.update(importlib.metadata.version("torch").encode())
    return digest.hexdigest()


def save(case, path, rank):
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.utils.serialization import config

    torch.serialization.set_crc32_options(case.crc)
    config.save.storage_alignment = case.alignment
    try:
        where = path if case.pathlib_id else str(path)
        writer = dcp.FileSystemWriter(where, sync_files=False, **case.writer)
        planner = dcp.DefaultSavePlanner(**case.planner)
        dcp.save(case.build(rank, case.world), storage_writer=writer, planner=planner, no_dist=case.no_dist)
    finally:
        torch.serialization.set_crc32_options(True)
        config.save.storage_alignment = 64


def worker(rank, world, out, store):
    import torch
    import torch.distributed as dist

    from golden_cases import CASES

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    for case in CASES:
        if case.world == world:
            save(case, pathlib.Path(out) / case.name, rank)
    dist.barrier()
    dist.destroy_process_group()


def write_reference(case, out):
    import torch
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    target = out / f"{case.name}.ref" / "model.pth"
    target.parent.mkdir()
    if case.expected:
        torch.save(case.expected(), target)
    else:
        dcp_to_torch_save(str(out / case.name), str(target))


def manifest(cases):
    return [{"name": c.name, "ranks": c.world, "safe": c.safe, "expected": c.expected is not None} for c in cases]


def write_all(out):
    import torch.multiprocessing

    from golden_cases import CASES

    for world in sorted({case.world for case in CASES}):
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.start_processes(worker, (world, str(out), f"{folder}/store"), nprocs=world, start_method="fork")
        print(f"{world} ranks: {time.monotonic() - started:.1f} s", flush=True)
    for case in CASES:
        write_reference(case, out)
    (out / "manifest.json").write_text(json.dumps(manifest(CASES), indent=1) + "\n")


def main():
    out = pathlib.Path(sys.argv[1]).resolve()
    mark = out / "stamp"
    if mark.exists() and mark.read_text() == stamp():
        print(f"{out}: up to date")
        return
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    sys.path.insert(0, str(HERE))
    write_all(out)
    mark.write_text(stamp())


if __name__ == "__main__":
    main()
