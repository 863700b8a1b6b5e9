# SPDX-License-Identifier: BSD-3-Clause
"""Kinds that are recognised and refused by name, never taken for bare DCP."""
import json
import struct
import unittest

import tiny_checkpoint
from program import CliTest, payload
from tiny_checkpoint import Tensor, standins, torch_archive

# (name of the builder below, words of the sentence)
KINDS = [
    ("megatron_zarr", "megatron.*zarr"), ("megatron_half", r"megatron.*common\.pt"), ("rank_metadata_gap", r"__1\.metadata: the file is missing"),
    ("transform", r"transform \(stream\.lz4/1\)"), ("safetensors_files", "2 safetensors files.* no index"),
    ("safetensors_items", "safetensors"), ("hdf5", "hdf5"), ("torch_file", "torch"), ("deepspeed", "deepspeed"),
    ("bytecheckpoint", "bytecheckpoint"), ("torch_checkpointing", r"metadata\.pkl|torch_checkpointing"),
    ("parent_of_two", "pass one of .*first"), ("lost_metadata", r"\.metadata"), ("empty_directory", ""),
    ("ordinary_file", ""), ("lightning_dangling", r"meta\.pt"), ("lightning_directory", r"meta\.pt"),
    ("two_companions", r"meta\.pt.*common\.pt"), ("megatron_damaged", r"metadata\.json.*sharded_backend"),
    ("megatron_later", r"metadata\.json.*sharded_backend_version"), ("megatron_dangling", r"common\.pt"),
]


def safetensors_bytes():
    header = json.dumps({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(12)


class Kinds:
    """One method per kind: makes it at `path`."""

    def megatron_zarr(self, path):
        path.mkdir()
        (path / "common.pt").write_bytes(torch_archive({"iteration": 1}))
        (path / "metadata.json").write_text('{"sharded_backend": "zarr", "sharded_backend_version": 1}')

    def megatron_half(self, path):
        tiny_checkpoint.small(path)
        (path / "metadata.json").write_text('{"sharded_backend": "torch_dist", "sharded_backend_version": 1}')

    def megatron_damaged(self, path):
        tiny_checkpoint.small(path)
        (path / "common.pt").write_bytes(torch_archive({"iteration": 1}))
        (path / "metadata.json").write_text("[")

    def megatron_later(self, path):
        self.megatron_half(path)
        (path / "common.pt").write_bytes(torch_archive({"iteration": 1}))
        (path / "metadata.json").write_text('{"sharded_backend": "torch_dist", "sharded_backend_version": 999}')

    def megatron_dangling(self, path):
        tiny_checkpoint.small(path)
        (path / "common.pt").symlink_to("nothing")

    def lightning_dangling(self, path):
        tiny_checkpoint.small(path)
        (path / "meta.pt").symlink_to("nothing")

    def lightning_directory(self, path):
        tiny_checkpoint.small(path)
        (path / "meta.pt").mkdir()

    def two_companions(self, path):
        tiny_checkpoint.small(path)
        for name in ("meta.pt", "common.pt"):
            (path / name).write_bytes(torch_archive({"iteration": 1}))

    def rank_metadata_gap(self, path):
        tiny_checkpoint.small(path)
        (path / ".metadata").rename(path / "__0.metadata")
        (path / "__2.metadata").write_bytes((path / "__0.metadata").read_bytes())

    def transform(self, path):
        directory = tiny_checkpoint.Directory(path)
        directory.files["__0_0.distcp"] = bytearray(100)
        directory.tensors.append(Tensor("w", "float32", (2,), [((0,), (2,), "__0_0.distcp", 0, 100, ["stream.lz4/1"])]))
        directory.paths["w"] = ("w",)
        directory.write(transforms=True)

    def safetensors_files(self, path):
        path.mkdir()
        for name in ("a.safetensors", "b.safetensors"):
            (path / name).write_bytes(safetensors_bytes())

    def safetensors_items(self, path):
        directory = tiny_checkpoint.Directory(path)
        directory.files["__0_0.distcp"] = bytearray(safetensors_bytes())
        # As torch writes it: from the file's first byte, as long as the payload.
        directory.tensors.append(Tensor("w", "float32", (3,), [((0,), (3,), "__0_0.distcp", 0, 12)]))
        directory.paths["w"] = ("w",)
        directory.write()

    def hdf5(self, path):
        path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(504))

    def torch_file(self, path):
        path.write_bytes(torch_archive({"a": 1}, stem="model"))

    def deepspeed(self, path):
        path.mkdir()
        for rank in range(2):
            (path / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt").write_bytes(torch_archive({}))
        (path / "mp_rank_00_model_states.pt").write_bytes(torch_archive({}))

    def bytecheckpoint(self, path):
        path.mkdir()
        other = standins.record("bytecheckpoint.checkpointer.meta_type", "Metadata")
        (path / ".metadata").write_bytes(standins.dumps(other(state_dict_metadata={}, storage_data={})))
        (path / "__0_0.distcp").write_bytes(bytes(64))

    def torch_checkpointing(self, path):
        path.mkdir()
        (path / "metadata.pkl").write_bytes(standins.dumps({"a": 1}))
        (path / "model_0.pt").write_bytes(torch_archive({}))

    def parent_of_two(self, path):
        tiny_checkpoint.small(path / "first")
        tiny_checkpoint.small(path / "second")

    def lost_metadata(self, path):
        tiny_checkpoint.small(path)
        (path / ".metadata").unlink()

    def empty_directory(self, path):
        path.mkdir()

    def ordinary_file(self, path):
        path.write_bytes(b"hello\n")


class Refused(CliTest):
    def test_each_kind_is_named_and_nothing_is_written(self):
        kinds = Kinds()
        out = self.folder / "out"
        for name, words in KINDS:
            with self.subTest(kind=name):
                source = self.folder / name
                getattr(kinds, name)(source)
                self.assert_fails(self.cairn("consolidate", source, out / f"{name}.pth"), 1, words)
                error = self.assert_json_error(self.cairn("consolidate", "--json", source, out / f"{name}.pth"), 1)
                self.assertIn(error["kind"], ("unsupported", "corrupt", "not_found", "invalid_argument", "mismatch"))
                self.assertFalse(list(out.rglob("*")) if out.exists() else [], "nothing was written")

    def test_quantised_tensors_are_refused_by_name(self):
        source = self.folder / "quantised"
        directory = tiny_checkpoint.Directory(source)
        directory.tensor(*tiny_checkpoint.rows("w", (2,), [], ["__0_0.distcp"]))
        directory.tensors.append(Tensor("q", "qint8", (4,), [((0,), (4,), "__0_0.distcp", 0, 100)]))
        directory.paths["q"] = ("q",)
        directory.write()
        self.assert_fails(self.cairn("consolidate", source, self.folder / "o.pth"), 1, "'q'", "qint8")

    def test_conjugate_views_are_resolved_or_refused(self):
        source = self.folder / "conj"
        directory = tiny_checkpoint.Directory(source)
        item = tiny_checkpoint.conjugate_item((2,), struct.pack("<4f", 1, 2, 3, 4))
        directory.tensors.append(Tensor("z", "complex64", (2,), [((0,), (2,), *directory.append("__0_0.distcp", item))]))
        directory.paths["z"] = ("z",)
        directory.write()
        result = self.cairn("consolidate", source, self.folder / "o.pth")
        if result.returncode == 0:
            self.assertEqual(payload(self.folder / "o.pth", "data/0"), struct.pack("<4f", 1, -2, 3, -4))
        else:
            self.assert_fails(result, 1, "conj")


if __name__ == "__main__":
    unittest.main()
