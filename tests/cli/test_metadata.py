# SPDX-License-Identifier: BSD-3-Clause
"""Every committed `.metadata`: listed as expectations.json says, or refused without harm."""
import json
import pathlib
import resource
import shutil
import unittest

import tiny_checkpoint
from program import CliTest, described

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "metadata"
MEMORY = 256 << 20


def bounded():
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


class Fixtures(CliTest):
    def setUp(self):
        super().setUp()
        self.expectations = json.loads((DATA / "expectations.json").read_text())
        self.source = self.folder / "source"
        self.source.mkdir()

    def place(self, name):
        shutil.copy(DATA / name, self.source / ".metadata")

    def test_every_file_has_an_expectation(self):
        self.assertEqual(sorted(p.name for p in DATA.glob("*.metadata")), sorted(self.expectations))

    def test_good_ones_are_listed(self):
        for name, expected in self.expectations.items():
            if "error" not in expected:
                with self.subTest(fixture=name):
                    self.place(name)
                    listed = json.loads(self.assert_success(self.cairn("ls", "--json", "--shards", self.source)).stdout)
                    self.assert_listed(listed, expected)

    def assert_listed(self, listed, expected):
        tensors = [{k: t[k] for k in ("name", "dtype", "shape", "chunks")} for t in listed["tensors"]]
        self.assertEqual(tensors, expected["tensors"])
        self.assertEqual([(o["name"], o["bytes"]) for o in listed["objects"]], [(o["name"], o["byte_length"]) for o in expected["objects"]])

    def test_bad_ones_are_refused_without_harm(self):
        for name, expected in self.expectations.items():
            if "error" in expected:
                with self.subTest(fixture=name):
                    self.place(name)
                    result = self.cairn("consolidate", "--json", self.source, self.folder / "o.pth", preexec_fn=bounded, cwd=self.folder,
                                        timeout=20)
                    error = self.assert_json_error(result, 1)
                    self.assertIn(error["kind"], expected["error"], described(result))
                    self.assertRegex(result.stderr.decode(), f"(?i){expected.get('says', '')}")
                    self.assert_only(self.folder, "source")
                    self.assertIn(self.cairn("ls", self.source, preexec_fn=bounded, timeout=20).returncode, (0, 1))

    def test_every_era_consolidates_to_the_same_bytes(self):
        """Old class and module names, absent fields, attributes nobody knows: the values are the same."""
        standins = tiny_checkpoint.standins
        modern = self.consolidated("modern")
        for name, fields in {"shard era": {"era": standins.SHARD_ERA}, "middle era": {"era": standins.MIDDLE_ERA}, "no version": {"version": None},
                             "unknown attributes": {"extra": {"future": {"a": [1, (2,)]}}}, "transforms": {"transforms": True},
                             "storage meta": {"storage_meta": {"checkpoint_id": pathlib.PosixPath("x"), "save_id": None, "modules": []}}}.items():
            with self.subTest(metadata=name):
                self.assertEqual(self.consolidated(name, **fields), modern)

    def consolidated(self, name, **fields):
        source, target = self.folder / name, self.folder / f"{name}.out" / "m.pth"
        tiny_checkpoint.small(source, **fields)
        self.assert_success(self.cairn("verify", "--metadata-only", "--quiet", source))
        self.assert_success(self.cairn("consolidate", "--no-sync", "--quiet", source, target))
        return target.read_bytes()

    def test_system_pythons_pickle_is_read(self):
        """The fixtures hold both enum forms; this one comes from the Python that runs the tests."""
        source = tiny_checkpoint.small(self.folder / "native")
        self.assert_success(self.cairn("verify", "--metadata-only", source))


if __name__ == "__main__":
    unittest.main()
