# SPDX-License-Identifier: BSD-3-Clause
"""ls: lines, globs, --shards, --tree, --json; verify --metadata-only."""
import json
import re
import unittest

import tiny_checkpoint
from program import CliTest, described


class Listing(CliTest):
    def setUp(self):
        super().setUp()
        self.source = tiny_checkpoint.small(self.folder / "source")

    def lines(self, *arguments):
        result = self.assert_success(self.cairn("ls", *arguments))
        self.assertTrue(result.stdout.endswith(b"\n") or not result.stdout, described(result))
        return [line.split("\t") for line in result.stdout.decode().splitlines()]

    def test_a_line_has_name_dtype_shape_bytes_and_chunk_count(self):
        by_name = {line[0]: line for line in self.lines(self.source)}
        self.assertEqual(list(by_name), ["net.weight", "net.bias", "step", "note"])
        name, dtype, shape, count, chunks = by_name["net.weight"]
        self.assertEqual((dtype, re.findall(r"\d+", shape), count, chunks), ("float32", ["5", "3"], "60", "2"))
        self.assertEqual(by_name["net.bias"][3:5], ["16", "1"])
        length = len(tiny_checkpoint.torch_archive(7))
        self.assertIn(str(length), by_name["step"])

    def test_globs_match_whole_names_across_dots(self):
        def names(*globs):
            return [line[0] for line in self.lines(self.source, *globs)]

        self.assertEqual(names("net.*"), ["net.weight", "net.bias"])
        self.assertEqual(names("*w*t"), ["net.weight"])
        self.assertEqual(names("net.bias", "s?ep"), ["net.bias", "step"])
        self.assertEqual(names("[mn]o*"), ["note"])

    def test_a_glob_that_matches_nothing_is_an_error(self):
        self.assert_fails(self.cairn("ls", self.source, "net"), 1, "net")

    def test_shards_gives_a_line_per_chunk(self):
        lines = self.lines("--shards", self.source, "net.weight")
        text = ["\t".join(line) for line in lines]
        chunks = [line for line in text if ".distcp" in line]
        self.assertEqual(len(chunks), 2, text)
        self.assertIn("__0_0.distcp", chunks[0])
        self.assertIn("__1_0.distcp", chunks[1])

    def test_tree_sums_by_prefix(self):
        text = self.assert_success(self.cairn("ls", "--tree", self.source)).stdout.decode()
        prefix = next(line for line in text.splitlines() if re.search(r"\bnet\b", line))
        self.assertIn("76", prefix)

    def test_json_has_the_promised_shape(self):
        plain = json.loads(self.assert_success(self.cairn("ls", "--json", self.source)).stdout)
        self.assertEqual({k: v for k, v in plain.items() if k in ("format", "path", "totals")},
                         {"format": "dcp", "path": str(self.source), "totals": {"tensors": 2, "objects": 2, "bytes": 76, "files": 2}})
        self.assertEqual(plain["tensors"][0], {"name": "net.weight", "dtype": "float32", "shape": [5, 3], "bytes": 60, "chunk_count": 2})
        self.assertEqual(plain["objects"][0], {"name": "step", "bytes": len(tiny_checkpoint.torch_archive(7))})
        shards = json.loads(self.assert_success(self.cairn("ls", "--json", "--shards", self.source)).stdout)
        self.assertEqual(shards["tensors"][0]["chunks"][1]["offsets"], [3, 0])
        self.assertEqual(shards["tensors"][0]["chunks"][1]["sizes"], [2, 3])
        self.assertEqual(shards["tensors"][0]["chunks"][1]["byte_offset"], 0)

    def test_control_characters_in_names_are_escaped(self):
        odd = ["tab\there", "new\nline", "esc\x1b[31m", "nul\0x", "del\x7f", "back\\slash", "ünï", "\u202eright to left"]
        directory = tiny_checkpoint.Directory(self.folder / "odd")
        for name in odd:
            directory.tensor(*tiny_checkpoint.rows(name, (1,), [], ["__0_0.distcp"]))
        source = directory.write()
        out = self.assert_success(self.cairn("ls", source)).stdout
        self.assertEqual(len(out.splitlines()), len(odd))
        self.assertFalse(re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", out), out)
        self.assertEqual({line.count(b"\t") for line in out.splitlines()}, {4})
        listed = json.loads(self.assert_success(self.cairn("ls", "--json", source)).stdout)
        self.assertEqual([t["name"] for t in listed["tensors"]], odd)

    def test_ls_needs_the_metadata_only(self):
        for shard in self.source.glob("*.distcp"):
            shard.unlink()
        self.assertEqual(len(self.lines(self.source)), 4)

    def test_stale_files_are_ignored(self):
        (self.source / "__9_0.distcp").write_bytes(b"left by an older save")
        said = self.assert_success(self.cairn("verify", "--metadata-only", self.source), notes=True).stderr
        self.assertIn(b"__9_0.distcp", said)
        self.assert_success(self.cairn("verify", "--metadata-only", "--quiet", self.source))
        self.assert_success(self.cairn("consolidate", self.source, self.folder / "o.pth"))

    def test_quiet_is_accepted(self):
        self.assert_success(self.cairn("ls", "--quiet", self.source))


class Verify(CliTest):
    def setUp(self):
        super().setUp()
        self.directory = tiny_checkpoint.Directory(self.folder / "source")

    def faults(self):
        result = self.cairn("verify", "--metadata-only", "--json", self.directory.path)
        self.assertEqual(result.returncode, 1, described(result))
        report = json.loads(result.stdout)
        self.assertFalse(report["ok"])
        plain = self.cairn("verify", "--metadata-only", self.directory.path)
        self.assertEqual(plain.returncode, 1)
        self.assertGreaterEqual((plain.stdout + plain.stderr).count(b"\n"), len(report["faults"]))
        return report["faults"]

    def add(self, name, shape, boxes, file="__0_0.distcp"):
        pieces = [(o, s, file, tiny_checkpoint.numbered(0, tiny_checkpoint.element_count(s))) for o, s in boxes]
        self.directory.tensor(name, "float32", shape, pieces)

    def test_a_whole_checkpoint_has_one_line(self):
        source = tiny_checkpoint.small(self.folder / "whole")
        result = self.assert_success(self.cairn("verify", "--metadata-only", source))
        self.assertEqual(result.stdout.count(b"\n"), 1)
        report = json.loads(self.assert_success(self.cairn("verify", "--metadata-only", "--json", source)).stdout)
        self.assertTrue(report["ok"])
        self.assertEqual(report["faults"], [])

    def test_holes_overlaps_and_boxes_outside_are_each_named(self):
        self.add("hole", (4,), [((0,), (1,)), ((2,), (2,))])
        self.add("overlap", (4,), [((0,), (3,)), ((2,), (2,))])
        self.add("outside", (4,), [((0,), (4,)), ((4,), (1,))])
        self.add("flat", (2, 2), [((0,), (4,))])
        self.add("whole", (2, 2), [((0, 0), (2, 2))])
        self.directory.write()
        faults = self.faults()
        self.assertEqual({f["name"] for f in faults}, {"hole", "overlap", "outside", "flat"}, faults)
        kinds = {f["name"]: f["kind"] for f in reversed(faults)}
        self.assertEqual(kinds, {"hole": "hole", "overlap": "overlap", "outside": "out_of_bounds", "flat": "ndim"})

    def test_missing_and_short_files_are_named(self):
        self.add("gone", (2,), [((0,), (2,))], "gone.distcp")
        self.add("short", (2,), [((0,), (2,))], "short.distcp")
        self.add("none", (2,), [((0,), (2,))], "none.distcp")
        path = self.directory.write()
        (path / "gone.distcp").unlink()
        (path / "none.distcp").write_bytes(b"")
        short = path / "short.distcp"
        short.write_bytes(short.read_bytes()[:-1])
        found = sorted((f["kind"], f["file"]) for f in self.faults())
        self.assertEqual(found, [("missing_file", "gone.distcp"), ("short_file", "none.distcp"), ("short_file", "short.distcp")])

    def test_a_chunk_without_storage_is_named(self):
        self.add("w", (4,), [((0,), (2,)), ((2,), (2,))])
        for tensor in self.directory.tensors:
            box = tensor.chunks[1]
        path = self.directory.write()
        metadata = tiny_checkpoint.standins.build(tiny_checkpoint.standins.MODERN_ERA, self.directory.tensors, [], {"w": ("w",)})
        metadata.storage_data = {k: v for k, v in metadata.storage_data.items() if tuple(k.offset) != box[0]}
        (path / ".metadata").write_bytes(tiny_checkpoint.standins.dumps(metadata))
        self.assertEqual([(f["kind"], f["name"]) for f in self.faults()], [("storage_data", "w")])

    def test_items_that_share_bytes_are_named_and_nothing_is_made_of_them(self):
        self.add("w", (4,), [((0,), (2,)), ((2,), (2,))])
        path = self.directory.write()
        metadata = tiny_checkpoint.standins.build(tiny_checkpoint.standins.MODERN_ERA, self.directory.tensors, [], {"w": ("w",)})
        second, = [place for index, place in metadata.storage_data.items() if tuple(index.offset) == (2,)]
        second.offset -= 256
        (path / ".metadata").write_bytes(tiny_checkpoint.standins.dumps(metadata))
        self.assertEqual([(f["kind"], f["name"]) for f in self.faults()], [("storage_data", "w")])
        refused = self.cairn("consolidate", path, self.folder / "o.pth")
        self.assertEqual(refused.returncode, 1, described(refused))
        self.assertIn(b"overlap those of 'w'", refused.stderr)
        self.assertFalse((self.folder / "o.pth").exists())

    def test_all_faults_are_reported_but_their_number_is_bounded(self):
        for i in range(3000):
            self.directory.tensors.append(tiny_checkpoint.Tensor(f"t{i}", "float32", (4,), [((0,), (3,), "__0_0.distcp", 0, 10)]))
            self.directory.paths[f"t{i}"] = (f"t{i}",)
        self.directory.files["__0_0.distcp"] = bytearray(10)
        self.directory.write()
        result = self.cairn("verify", "--metadata-only", self.directory.path)
        self.assertEqual(result.returncode, 1)
        self.assertLess(len(result.stdout + result.stderr), 1 << 20)
        self.assertIn(b"t0", result.stdout + result.stderr)

    def test_many_chunks_in_a_grid_are_no_matter(self):
        boxes = [((i, j), (1, 1)) for i in range(300) for j in range(300)]
        self.directory.tensors.append(tiny_checkpoint.Tensor("grid", "uint8", (300, 300), [(o, s, "f", 0, 10) for o, s in boxes]))
        self.directory.files["f"] = bytearray(10)
        self.directory.write()
        self.assert_success(self.cairn("verify", "--metadata-only", self.directory.path, timeout=30))


if __name__ == "__main__":
    unittest.main()
