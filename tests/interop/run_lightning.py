# SPDX-License-Identifier: BSD-3-Clause
"""Lightning's sharded folders beside Lightning itself.

    run_lightning.py --cairn CAIRN --env ENV.SH

A Trainer with ModelParallelStrategy writes a folder on 2 ranks of the CPU; further folders have the shapes that its other strategies write
(`model`, many optimizers, weights only, Fabric). consolidate gives key by key what Lightning's own tool gives, and the same bytes on 1, 2,
3, 4 and 8 ranks; the result, and the folder laid out for 3 ranks, are what the Trainer goes on from.
"""
import argparse
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

import lightning  # noqa: E402
import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from lightning.fabric.utilities.load import _load_distributed_checkpoint  # noqa: E402
from lightning.pytorch.strategies import ModelParallelStrategy  # noqa: E402
from lightning.pytorch.utilities.consolidate_checkpoint import _format_checkpoint  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402


class Model(lightning.LightningModule):
    def __init__(self, width=24):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(torch.nn.Linear(7, width), torch.nn.ReLU(), torch.nn.Linear(width, 5))

    def configure_model(self):
        if self.device_mesh is not None:
            fully_shard(self.net, mesh=self.device_mesh["data_parallel"])

    def training_step(self, batch, _index):
        return self.net(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)

    def train_dataloader(self):
        inputs = torch.randn(16, 7, generator=torch.Generator().manual_seed(1))
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs), batch_size=4)


def fit(epochs, resumed_from, out, sharded=True):
    """In a process of its own: a Trainer's strategy starts others."""
    lightning.seed_everything(0, verbose=False)
    strategy = ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=1, process_group_backend="gloo") if sharded else "auto"
    trainer = lightning.Trainer(accelerator="cpu", devices=2 if sharded else 1, strategy=strategy, max_epochs=epochs, logger=False,
                                enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
    trainer.fit(Model(), ckpt_path=resumed_from or None)
    trainer.save_checkpoint(out)
    if trainer.global_rank == 0:
        pathlib.Path(f"{out}.steps").write_text(str(trainer.global_step))


def run_fit(*words):
    done = subprocess.run([sys.executable, "-B", "-W", "ignore", __file__, "--fit", *map(str, words)], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"FAILED: the Trainer: {done.stderr[-3000:]}")
    return int(pathlib.Path(f"{words[2]}.steps").read_text())


def require(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def require_equal(a, b, where):
    require(type(a) is type(b) or isinstance(a, dict) and isinstance(b, dict), f"{where}: {type(a)} and {type(b)}")
    if isinstance(a, torch.Tensor):
        require(a.dtype == b.dtype and torch.equal(a, b) and not b.requires_grad, f"{where}: another tensor")
    elif isinstance(a, dict):
        require(list(a) == list(b), f"{where}: keys {list(a)} and {list(b)}")
        for key in a:
            require_equal(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, (list, tuple)):
        require(len(a) == len(b), f"{where}: {len(a)} and {len(b)} elements")
        for i, (one, other) in enumerate(zip(a, b)):
            require_equal(one, other, f"{where}[{i}]")
    else:
        require(a == b, f"{where}: {a!r} and {b!r}")


def lightnings_own(folder, fabric):
    """What its tool writes; it knows `model` only, where ModelParallelStrategy writes `state_dict`."""
    checkpoint = _load_distributed_checkpoint(folder)
    if fabric:
        return checkpoint
    if "state_dict" in checkpoint:
        checkpoint["model"] = checkpoint.pop("state_dict")
    return _format_checkpoint(checkpoint)


class Suite:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch

    def cairn(self, *words, ranks=1, status=0):
        command = [self.options.cairn, *map(str, words)]
        if ranks > 1:
            command = [self.options.env, "mpirun", "-n", str(ranks), *command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
        require(done.returncode == status, f"{words} on {ranks}: status {done.returncode}, {done.stderr}")
        return done

    def compare(self, folder, fabric=False, counts=(1, 2, 3, 4, 8)):
        expected = lightnings_own(folder, fabric)
        written = set()
        for ranks in counts:
            out = self.scratch / f"{folder.name}.{ranks}" / "whole.ckpt"
            out.parent.mkdir()
            self.cairn("consolidate", folder, out, "--no-sync", *(["--fabric"] if fabric else []), ranks=ranks)
            written.add(out.read_bytes())
        require(len(written) == 1, f"{folder.name}: other bytes on other numbers of ranks")
        require_equal(expected, torch.load(out, weights_only=False), folder.name)
        self.cairn("verify", folder)

    def save(self, name, shards, beside):
        folder = self.scratch / name
        dcp.save(shards, checkpoint_id=folder, no_dist=True)
        torch.save(beside, folder / "meta.pt")
        return folder

    def other_shapes(self):
        weights = {"net.weight": torch.randn(6, 4), "net.bias": torch.arange(3)}
        moments = [{"state": {"net.weight": {"step": torch.tensor(float(i)), "exp_avg": torch.full((6, 4), float(i))}},
                    "param_groups": [{"lr": 0.1 * i, "betas": (0.9, 0.999), "params": ["net.weight"]}]} for i in range(12)]
        meta = {"epoch": 3, "global_step": 12, "callbacks": {}, "hyper_parameters": {"width": 4, "names": ["a", "b"]},
                "loops": {"state": {"ready": 1}}, "tensors": [torch.arange(4.0), {"x": torch.ones(2, dtype=torch.bfloat16)}]}
        backwards = {f"optimizer_{i}": moments[i] for i in reversed(range(12))}
        self.compare(self.save("fsdp", {**backwards, "model": weights}, meta), counts=(1, 3))
        self.compare(self.save("weights_only", {"model": weights}, {"epoch": 3}), counts=(1, 2))
        self.compare(self.save("fabric", {"net": weights, "optim": moments[1], "step": 7}, {"note": "user's own"}), fabric=True, counts=(1, 4))
        both = self.save("lookalikes", {"model": weights, "optimizer_0": moments[0], "optimizer_abc": moments[1], "optimizer_0abc": {"x": torch.ones(1)}}, {})
        out = self.scratch / "lookalikes.ckpt"
        self.cairn("consolidate", both, out, "--no-sync")
        found = torch.load(out, weights_only=False)
        require(list(found) == ["optimizer_abc", "optimizer_0abc", "state_dict", "optimizer_states"], f"lookalikes: {list(found)}")
        require_equal([moments[0]], found["optimizer_states"], "lookalikes: optimizer_states")
        gap = self.save("gap", {"model": weights, "optimizer_0": moments[0], "optimizer_2": moments[2]}, {})
        done = self.cairn("consolidate", gap, self.scratch / "gap.ckpt", status=1)
        require("`optimizer_1` is missing" in done.stderr and not (self.scratch / "gap.ckpt").exists(), f"gap: {done.stderr}")

    def default_name(self, folder):
        self.cairn("consolidate", folder, "--no-sync")
        out = folder.with_suffix(folder.suffix + ".consolidated")
        before = out.read_bytes()
        done = self.cairn("consolidate", folder, "--no-sync", status=1)
        require("exists" in done.stderr and out.read_bytes() == before, f"existing output: {done.stderr}")
        return out

    def resumed(self, folder):
        """The Trainer goes on from the folder, from the folder laid out anew, and from the one file."""
        anew = self.scratch / "anew"
        self.cairn("reshard", folder, anew, "--ranks", 3, "--no-sync", ranks=2)
        require((anew / "meta.pt").read_bytes() == (folder / "meta.pt").read_bytes(), "reshard: another meta.pt")
        steps = [run_fit(4, path, self.scratch / f"from_{path.name}.ckpt") for path in (folder, anew)]
        require(steps == [8, 8], f"steps {steps}")
        known, found = (_load_distributed_checkpoint(self.scratch / f"from_{path.name}.ckpt") for path in (folder, anew))
        require_equal(known["state_dict"], found["state_dict"], "weights after going on")
        require_equal(known["optimizer_0"], found["optimizer_0"], "optimizer after going on")
        whole = self.default_name(folder)
        steps = run_fit(4, whole, self.scratch / "from_file.ckpt", "single")
        require(steps == 12, f"from the one file: {steps} steps, of which 4 are the folder's")  # 4 a epoch on one process


def main():
    if sys.argv[1:2] == ["--fit"]:
        return fit(int(sys.argv[2]), sys.argv[3] if sys.argv[3] != "-" else "", sys.argv[4], len(sys.argv) == 5)
    parser = argparse.ArgumentParser()
    for option in ("cairn", "env"):
        parser.add_argument(f"--{option}", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cairn-lightning-") as scratch:
        suite = Suite(options, pathlib.Path(scratch))
        folder = suite.scratch / "trained.ckpt"
        require(run_fit(2, "-", folder) == 4, "steps of the first training")
        require((folder / "meta.pt").is_file(), "the Trainer has written no sharded folder")
        suite.compare(folder)
        suite.other_shapes()
        suite.resumed(folder)
    print("folders of Lightning", lightning.__version__, "are what its own tool makes of them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
