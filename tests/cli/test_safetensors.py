# SPDX-License-Identifier: BSD-3-Clause
"""safetensors files: what every command makes of them, which are refused, and what is left when writing fails."""
import json
import os
import shutil
import signal
import struct
import unittest

import tiny_checkpoint
from program import PROGRAM, CliTest, finish, payload, run, start_until_part
from tiny_checkpoint import numbered, tensor_of, torch_archive

INDEX = "model.safetensors.index.json"


def file_of(tensors, metadata=None, data=None, header=None):
    """`tensors`: name → (dtype, shape, bytes)."""
    entries, at = ({"__metadata__": metadata} if metadata else {}), 0
    for name, (dtype, shape, content) in tensors.items():
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps(entries).encode() if header is None else header
    return struct.pack("<Q", len(text)) + text + (b"".join(t[2] for t in tensors.values()) if data is None else data)


def f32(*shape, start=0):
    count = 1
    for size in shape:
        count *= size
    return "F32", list(shape), numbered(start, count)


def contents(path):
    """Name → (dtype, shape, bytes)."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    assert header.pop("__metadata__")["format"] == "pt"
    assert (8 + length) % 8 == 0
    return {k: (v["dtype"], v["shape"], data[8 + length:][slice(*v["data_offsets"])]) for k, v in header.items()}


def tree(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


class Safetensors(CliTest):
    def setUp(self):
        super().setUp()
        self.state = {"net.weight": f32(4, 3), "net.bias": f32(3, start=100), "step": ("I64", [], struct.pack("<q", 7))}
        self.file = self.folder / "x.safetensors"
        self.file.write_bytes(file_of(self.state, {"format": "pt"}))
        self.out = self.folder / "out"

    def shards(self, folder, stale=True):
        folder.mkdir()
        names = list(self.state)
        (folder / "model-00001-of-00002.safetensors").write_bytes(file_of({n: self.state[n] for n in names[:1]}))
        (folder / "model-00002-of-00002.safetensors").write_bytes(file_of({n: self.state[n] for n in names[1:]}))
        if stale:
            (folder / "model-00009-of-00009.safetensors").write_bytes(b"left by an older export")
        self.index(folder, {n: f"model-0000{1 + (i > 0)}-of-00002.safetensors" for i, n in enumerate(names)})
        return folder

    def index(self, folder, weights):
        (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 68}, "weight_map": weights}))

    def tied(self, name="tied.pth"):
        tensor = tensor_of("float32", (2, 3))
        (self.folder / name).write_bytes(torch_archive({"a": tensor, "b": tensor}, [numbered(0, 6)]))
        return self.folder / name

    # ---- reading

    def test_ls_lists_a_file(self):
        listed = json.loads(self.assert_success(self.cairn("ls", "--json", "--shards", self.file)).stdout)
        header = 8 + struct.unpack("<Q", self.file.read_bytes()[:8])[0]
        self.assertEqual((listed["format"], listed["path"], listed["objects"]), ("safetensors", str(self.file), []))
        self.assertEqual(listed["tensors"][1], {
            "name": "net.bias", "dtype": "float32", "shape": [3], "bytes": 12, "chunk_count": 1,
            "chunks": [{"offsets": [0], "sizes": [3], "file": "x.safetensors", "byte_offset": header + 48, "byte_length": 12}]})
        self.assertEqual(listed["totals"], {"tensors": 3, "objects": 0, "bytes": 68, "files": 1})

    def test_a_directory_is_what_its_index_says(self):
        folder = self.shards(self.folder / "model")
        for path in (folder, folder / INDEX):
            listed = json.loads(self.assert_success(self.cairn("ls", "--json", path)).stdout)
            self.assertEqual([t["name"] for t in listed["tensors"]], list(self.state))
            self.assertEqual(listed["totals"]["files"], 2)
        self.assert_success(self.cairn("consolidate", folder, self.folder / "o.pth"))
        self.assertEqual(payload(self.folder / "o.pth", "data/0"), numbered(0, 12))
        self.assert_success(self.cairn("convert", folder, self.folder / "o.safetensors"))
        self.assertEqual(contents(self.folder / "o.safetensors"), self.state)

    def test_a_consolidation_of_shards_that_was_killed_goes_on(self):
        folder = self.shards(self.folder / "model")
        (folder / "model-00001-of-00002.safetensors").write_bytes(file_of({"net.weight": ("U8", [8 << 20], bytes(range(256)) * (32 << 10))}))
        target = self.folder / "o.pth"
        process = start_until_part([PROGRAM, "consolidate", "--resume", folder, target], target)
        if process is None:
            self.skipTest("it was over too soon")
        process.kill()
        finish(process)
        self.assertFalse(target.exists())
        self.assert_success(self.cairn("consolidate", "--resume", folder, target))
        self.assertEqual(payload(target, "data/0"), bytes(range(256)) * (32 << 10))
        self.assert_only(self.folder, "model", "o.pth", "x.safetensors")

    def test_files_of_a_hub_cache_are_links(self):
        folder = self.shards(self.folder / "blobs", stale=False)
        cache = self.folder / "snapshot"
        cache.mkdir()
        for path in folder.iterdir():
            (cache / path.name).symlink_to(path)
        for ranks in (1, 3):
            self.assert_success(self.mpirun(ranks, "convert", "--overwrite", cache, self.folder / "o.safetensors"))
            self.assertEqual(contents(self.folder / "o.safetensors"), self.state)

    def test_verify_checks_the_structure_and_counts_the_rest(self):
        for path in (self.file, self.shards(self.folder / "model")):
            result = self.assert_success(self.cairn("verify", path), notes=True)
            self.assertRegex(result.stdout, b"whole: 3 tensors")
            self.assertRegex(result.stderr, b"unchecked: 3 items")
            report = json.loads(self.cairn("verify", "--json", path).stdout)
            self.assertEqual((report["ok"], report["complete"], report["unchecked_items"], report["checked_bytes"]), (True, False, 3, 0))
            strict = self.cairn("verify", "--strict", path)
            self.assertEqual((strict.returncode, strict.stdout.count(b"crc\t")), (1, 3))
            self.assert_success(self.cairn("verify", "--metadata-only", path))

    def test_reshard_reads_dcp_directories_only(self):
        self.assert_fails(self.cairn("reshard", self.file, self.out, "--ranks", 2), 1, "safetensors", "convert")

    def test_the_source_is_never_replaced(self):
        folder = self.shards(self.folder / "model", stale=False)
        before = tree(folder), self.file.read_bytes()
        for words in ((self.file, self.file), (folder, folder, "--to", "safetensors"), (folder, folder / "model.pth"),
                      (self.file, self.folder / "x.safetensors", "--to", "pth"),
                      (folder / "model-00001-of-00002.safetensors", folder, "--to", "safetensors"),
                      (folder / "model-00001-of-00002.safetensors", folder, "--to", "safetensors", "--dry-run")):
            self.assert_fails(self.cairn("convert", *words, "--overwrite"), 1, "checkpoint")
        self.assertEqual((tree(folder), self.file.read_bytes()), before)

    # ---- damage

    def test_damaged_files_are_refused_by_every_command(self):
        good = self.file.read_bytes()
        header = json.dumps({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}})

        def changed(**fields):
            return json.dumps({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]} | fields}).encode()

        two = '{"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "%s": {"dtype": "U8", "shape": [4], "data_offsets": [%d, %d]}}'
        damaged = {
            "cut by one": (good[:-1], "short_file"), "cut in the header": (good[:60], "header"), "a byte more": (good + b"x", "hole"),
            "huge header": (b"\xff" * 7 + b"\x7f" + good[8:], "header"), "no json": (good[:9] + b"'" + good[10:], None),
            "overlap": (file_of({}, header=(two % ("b", 3, 7)).encode(), data=bytes(7)), "overlap"),
            "hole": (file_of({}, header=(two % ("b", 5, 9)).encode(), data=bytes(9)), "hole"),
            "twice": (file_of({}, header=(two % ("a", 4, 8)).encode(), data=bytes(8)), "header"),
            "dtype": (file_of({}, header=changed(dtype="F99"), data=bytes(12)), "dtype"),
            "overflow": (file_of({}, header=changed(shape=[1 << 62, 1 << 62]), data=bytes(12)), "shape"),
            "negative": (file_of({}, header=changed(shape=[-3]), data=bytes(12)), "header"),
            "another shape": (file_of({}, header=changed(shape=[4]), data=bytes(12)), "shape"),
            "fraction": (file_of({}, header=header.replace("3", "3.0").encode(), data=bytes(12)), "header"),
        }
        for label, (content, kind) in damaged.items():
            with self.subTest(label):
                path = self.folder / "damaged.safetensors"
                path.write_bytes(content)
                if kind is None:
                    self.assertEqual(self.cairn("ls", path).returncode, 1)
                    continue
                self.assert_fails(self.cairn("ls", path), 1, "damaged")
                for words in (("convert", path, self.folder / "o.pth"), ("convert", path, self.folder / "o.safetensors"),
                              ("convert", path, self.out), ("consolidate", path, self.folder / "o.pth")):
                    self.assert_fails(self.cairn(*words), 1, "damaged")
                report = json.loads(self.cairn("verify", "--json", path).stdout)
                self.assertEqual((report["ok"], report["faults"][0]["kind"]), (False, kind))
                self.assertFalse(self.out.exists() or (self.folder / "o.pth").exists() or (self.folder / "o.safetensors").exists())

    def test_an_index_that_is_wrong_is_refused(self):
        def weights(change):
            folder = self.shards(self.folder / "model")
            names = json.loads((folder / INDEX).read_text())["weight_map"]
            self.index(folder, names | change)
            return folder

        one = "model-00001-of-00002.safetensors"
        cases = {"a missing file": ({"step": "model-00003-of-00003.safetensors"}, "missing"), "a path": ({"step": "../x.safetensors"}, "plain"),
                 "an absolute path": ({"step": str(self.file)}, "plain"), "a name that no shard has": ({"more": one}, "no such tensor"),
                 "the wrong shard": ({"step": one}, "no such tensor")}
        for label, (change, words) in cases.items():
            with self.subTest(label):
                folder = weights(change)
                self.assert_fails(self.cairn("convert", folder, self.folder / "o.pth"), 1, words)
                self.assert_fails(self.cairn("ls", folder), 1, words)
                for ranks in (2, 3):
                    result = self.mpirun(ranks, "convert", folder, self.folder / "o.pth", "--visibility-timeout", 0)
                    self.assertNotEqual(result.returncode, 0)
                    self.assertRegex(result.stderr.decode(), words)
                self.assertFalse((self.folder / "o.pth").exists())
                shutil.rmtree(folder)
        folder = self.shards(self.folder / "model")
        (folder / one).write_bytes(file_of({"net.weight": f32(4, 3), "step": self.state["step"]}))
        self.assert_fails(self.cairn("ls", folder), 1, "holds a tensor of this name too")
        shard = folder / "model-00002-of-00002.safetensors"
        (folder / one).write_bytes(file_of({"net.weight": f32(4, 3)}))
        shard.write_bytes(shard.read_bytes()[:-1])
        self.assert_fails(self.cairn("convert", folder, self.folder / "o.pth"), 1, "model-00002-of-00002", "short|ends at")

    # ---- writing

    def test_shards_have_names_sizes_and_an_index(self):
        report = json.loads(self.assert_success(self.cairn("convert", "--json", self.file, self.out, "--to", "safetensors", "--max-shard-size", 20)).stdout)
        self.assert_only(self.out, "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", INDEX)
        index = json.loads((self.out / INDEX).read_text())
        self.assertEqual(index, {"metadata": {"total_size": 68}, "weight_map": {
            "net.bias": "model-00002-of-00002.safetensors", "net.weight": "model-00001-of-00002.safetensors",
            "step": "model-00002-of-00002.safetensors"}})
        size = sum(p.stat().st_size for p in self.out.iterdir())
        self.assertEqual(report["outputs"], [{"path": str(self.out), "bytes": size, "tensors": 3, "objects": 0}])
        self.assertEqual(contents(self.out / "model-00001-of-00002.safetensors"), {"net.weight": self.state["net.weight"]})

    def test_names_and_types_are_changed_as_elsewhere(self):
        self.assert_success(self.cairn("convert", self.file, self.folder / "o.safetensors", "--select", "net.*", "--strip-prefix", "net",
                                       "--cast", "bfloat16"))
        made = contents(self.folder / "o.safetensors")
        self.assertEqual({k: v[:2] for k, v in made.items()}, {"weight": ("BF16", [4, 3]), "bias": ("BF16", [3])})
        self.assertEqual(made["bias"][2], b"".join(struct.pack("<f", x)[2:] for x in (100, 101, 102)))

    def test_more_shards_than_open_files_are_allowed(self):
        source = self.folder / "many.safetensors"
        source.write_bytes(file_of({f"t{i:03d}": f32(1, start=i) for i in range(100)}))
        words = [PROGRAM, "convert", source, self.out, "--to", "safetensors", "--max-shard-size", 4]
        self.assert_success(run(["sh", "-c", 'ulimit -Sn 40; exec "$@"', "sh", *words]))
        self.assertEqual(len(tree(self.out)), 101)
        self.assertEqual(contents(self.out / "model-00100-of-00100.safetensors"), {"t099": f32(1, start=99)})
        shutil.rmtree(self.out)
        self.assert_fails(run(["sh", "-c", 'ulimit -n 40; exec "$@"', "sh", *words]), 1, "too many open files")
        self.assertFalse(self.out.exists())

    def test_objects_and_dtypes_without_a_code_are_refused_before_anything_is_written(self):
        source, target = self.folder / "o.pth", self.folder / "x/o.safetensors"
        source.write_bytes(torch_archive({"w": tensor_of("float32", (2,)), "lr": 0.5, "name": "n"}, [numbered(0, 2)]))
        self.assert_fails(self.cairn("convert", source, target), 1, "'lr' and 'name'|'lr', 'name'", "--objects drop")
        (self.folder / "z.pth").write_bytes(torch_archive({"z": tensor_of("complex128", (1,))}, [bytes(16)]))
        self.assert_fails(self.cairn("convert", self.folder / "z.pth", target), 1, "complex128", "'z'")
        self.assertFalse(target.parent.exists())
        result = self.assert_success(self.cairn("convert", source, target, "--objects", "drop"), notes=True)
        self.assertRegex(result.stderr, b"skipped: 'lr'")
        self.assertEqual(contents(target), {"w": f32(2)})

    def test_tied_tensors(self):
        self.assert_success(self.cairn("convert", self.tied(), self.folder / "kept.safetensors"))
        self.assertEqual(contents(self.folder / "kept.safetensors"), {"a": f32(2, 3), "b": f32(2, 3)})
        self.assert_success(self.cairn("convert", self.tied(), self.folder / "alias.safetensors", "--tied", "alias"))
        self.assertEqual(contents(self.folder / "alias.safetensors"), {"a": f32(2, 3)})
        self.assertIn(b'"__metadata__":{"format":"pt","b":"a"}', (self.folder / "alias.safetensors").read_bytes())

    def test_an_existing_checkpoint_stays_without_overwrite(self):
        self.assert_success(self.cairn("convert", self.file, self.out, "--to", "safetensors", "--max-shard-size", 20))
        before = tree(self.out)
        for size in (20, 1000):
            self.assert_fails(self.cairn("convert", self.file, self.out, "--to", "safetensors", "--max-shard-size", size), 1, "exists")
        self.assertEqual(tree(self.out), before)

    def test_overwriting_leaves_no_file_of_the_old_checkpoint(self):
        words = ("convert", "--overwrite", self.file, self.out, "--to", "safetensors", "--max-shard-size")
        self.assert_success(self.cairn(*words, 1))
        (self.out / "README.md").write_text("mine"), (self.out / "other.safetensors").write_text("mine")
        self.assertEqual(len(tree(self.out)), 6)
        self.assert_success(self.cairn(*words, 20))
        self.assert_only(self.out, "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", INDEX, "README.md", "other.safetensors")
        self.assert_success(self.cairn(*words, 1000))
        self.assert_only(self.out, "model.safetensors", "README.md", "other.safetensors")
        self.assert_success(self.cairn(*words, 20))
        self.assert_only(self.out, "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", INDEX, "README.md", "other.safetensors")

    def test_what_is_left_of_the_other_form_is_not_passed_over(self):
        """One file and several are held by locks of different names."""
        self.out.mkdir()
        for other, size in ((INDEX, 1000), ("model.safetensors", 20)):
            left = self.out / f".{other}.cairn-part"
            left.write_bytes(b"left")
            words = ("convert", self.file, self.out, "--to", "safetensors", "--max-shard-size", size)
            for more in ((), ("--resume",)):
                self.assert_fails(self.cairn(*words, *more), 1, "cairn-part")
                self.assert_only(self.out, left.name)
            self.assert_success(self.cairn(*words, "--overwrite"))
            shutil.rmtree(self.out), self.out.mkdir()

    def test_a_directory_with_a_dcp_checkpoint_is_no_place(self):
        dcp = tiny_checkpoint.small(self.folder / "dcp")
        self.assert_fails(self.cairn("convert", self.file, dcp, "--to", "safetensors", "--overwrite"), 1, "DCP checkpoint is there")

    def test_a_directory_with_safetensors_is_no_place_for_a_dcp_checkpoint(self):
        for size in (1000, 20):
            self.assert_success(self.cairn("convert", self.file, self.out, "--to", "safetensors", "--max-shard-size", size, "--overwrite"))
            before = sorted(os.listdir(self.out))
            self.assert_fails(self.cairn("convert", self.file, self.out, "--to", "dcp", "--overwrite"), 1, "safetensors checkpoint is there")
            self.assert_only(self.out, *before)

    def test_a_dry_run_makes_nothing(self):
        told = self.assert_success(self.cairn("convert", "--dry-run", "--json", self.file, self.out, "--to", "safetensors", "--max-shard-size", 20))
        report = json.loads(told.stdout)
        self.assertFalse(self.out.exists())
        self.assert_success(self.cairn("convert", self.file, self.out, "--to", "safetensors", "--max-shard-size", 20))
        self.assertEqual(report["outputs"][0]["bytes"], sum(p.stat().st_size for p in self.out.iterdir()))
        self.assertRegex(json.dumps(report), "net.weight")

    def test_usage_errors(self):
        for words in (("o.safetensors", "--ranks", 2), ("o.safetensors", "--dim", 1), ("o.safetensors", "--align", 128),
                      ("o.safetensors", "--objects", "safe"), ("o.safetensors", "--max-shard-size", 0), ("o.safetensors", "--max-shard-size", "x"),
                      ("o.safetensors", "--tied", "x"), ("o.pth", "--tied", "alias"), ("o", "--max-shard-size", 5), ("o.pth", "--max-shard-size", 5),
                      ("o.safetensors", "--max-shard-size", 20)):
            with self.subTest(words=words):
                self.assert_fails(self.cairn("convert", self.file, *words, cwd=self.folder), 2)
        self.assert_only(self.folder, "x.safetensors")

    # ---- failures

    def large(self, size=8 << 20):
        """A sparse file."""
        path = self.folder / "large.safetensors"
        header = json.dumps({"a": {"dtype": "U8", "shape": [size // 2], "data_offsets": [0, size // 2]},
                             "b": {"dtype": "U8", "shape": [size // 2], "data_offsets": [size // 2, size]}}).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header)
        os.truncate(path, 8 + len(header) + size)
        return path

    def test_a_full_disk_leaves_nothing_and_the_old_output(self):
        if os.geteuid() != 0 or shutil.which("mount") is None:
            self.skipTest("needs a file system of its own")
        place = self.folder / "small"
        place.mkdir()
        if run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", place]).returncode != 0:
            self.skipTest("cannot mount")
        self.addCleanup(run, ["umount", place])
        words = ("--to", "safetensors", "--max-shard-size", 20, "--overwrite")
        self.assert_success(self.cairn("convert", self.file, place / "out", *words))
        before = tree(place / "out")
        self.assert_fails(self.cairn("convert", self.large(), place / "out", *words), 1, "disk full")
        self.assertEqual(tree(place / "out"), before)

    def test_a_source_that_is_cut_while_it_is_read_leaves_the_old_output(self):
        self.assert_success(self.cairn("convert", self.file, self.out, "--to", "safetensors", "--max-shard-size", 20))
        before = tree(self.out)
        source = self.large(128 << 20)
        process = start_until_part([PROGRAM, "convert", source, self.out, "--to", "safetensors", "--max-shard-size", 1 << 20, "--overwrite", "--threads", 1],
                                   self.out / "model-00001-of-00002.safetensors")
        if process is None:
            self.skipTest("it was over too soon")
        os.truncate(source, source.stat().st_size // 2)
        os.kill(process.pid, signal.SIGCONT)
        self.assert_fails(finish(process), 1, "large.safetensors")
        self.assertEqual(tree(self.out), before)

    def test_a_signal_leaves_the_old_output(self):
        self.assert_success(self.cairn("convert", self.file, self.out, "--to", "safetensors", "--max-shard-size", 20))
        before = tree(self.out)
        command = [PROGRAM, "convert", self.large(), self.out, "--to", "safetensors", "--max-shard-size", 1 << 20, "--overwrite"]
        for number in (signal.SIGTERM, signal.SIGKILL):
            process = start_until_part(command, self.out / "model-00001-of-00002.safetensors")
            if process is None:
                self.skipTest("it was over too soon")
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)
            finish(process)
            left = {k: v for k, v in tree(self.out).items() if not k.endswith(".cairn-part")}
            self.assertEqual(left, before)
            if number == signal.SIGTERM:
                self.assertEqual(tree(self.out), before)
        self.assert_success(self.cairn(*command[1:]))
        self.assert_only(self.out, "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", INDEX)


if __name__ == "__main__":
    unittest.main()
