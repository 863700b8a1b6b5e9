# SPDX-License-Identifier: BSD-3-Clause
"""convert and reshard: what they read and write, what they refuse, and what is left when they fail."""
import collections
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import time
import unittest
import zipfile

import tiny_checkpoint
from program import PROGRAM, CliTest, finish, payload, run
from tiny_checkpoint import numbered, pickled, tensor_of, torch_archive


def torch_file(path, stem="archive"):
    """Two tensors under nested names, an int key and an object."""
    state = {"net": {"weight": tensor_of("float32", (4, 3)), "state": {0: {"step": 7}}}}
    path.write_bytes(torch_archive(state, [numbered(0, 12)], stem))
    return path


def archive_of(records, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in records:
            archive.writestr(f"a/{name}", content)
    return out.getvalue()


def offset_of(archive, record):
    """Where a record's bytes begin."""
    with zipfile.ZipFile(archive) as records, open(archive, "rb") as stream:
        header = next(i.header_offset for i in records.infolist() if i.filename.split("/", 1)[1] == record)
        stream.seek(header + 26)
        return header + 30 + sum(struct.unpack("<HH", stream.read(4)))


def tree(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


class Convert(CliTest):
    def setUp(self):
        super().setUp()
        self.pth = torch_file(self.folder / "x.pth")
        self.dcp = tiny_checkpoint.small(self.folder / "source")
        self.out = self.folder / "out"

    def names(self, path):
        listed = json.loads(self.assert_success(self.cairn("ls", "--json", path)).stdout)
        return [t["name"] for t in listed["tensors"]], [o["name"] for o in listed["objects"]]

    def test_ls_lists_a_torch_file(self):
        listed = json.loads(self.assert_success(self.cairn("ls", "--json", "--shards", self.pth)).stdout)
        self.assertEqual((listed["format"], listed["path"]), ("torch", str(self.pth)))
        chunk = {"offsets": [0, 0], "sizes": [4, 3], "file": "x.pth"}
        self.assertEqual(listed["tensors"][0]["chunks"][0] | chunk, listed["tensors"][0]["chunks"][0])
        self.assertEqual(self.names(self.pth), (["net.weight"], ["net.state.0.step"]))

    def test_a_torch_file_becomes_a_directory_and_a_file_again(self):
        report = json.loads(self.assert_success(self.cairn("convert", "--json", "--ranks", 2, self.pth, self.out)).stdout)
        size = sum(p.stat().st_size for p in self.out.iterdir())
        self.assertEqual(report["outputs"], [{"path": str(self.out), "bytes": size, "tensors": 1, "objects": 1}])
        self.assertEqual(report["verified_bytes"], 48)
        self.assert_only(self.out, ".metadata", "__0_0.distcp", "__1_0.distcp")
        self.assert_success(self.cairn("verify", "--strict", self.out))
        self.assert_success(self.cairn("convert", self.out, self.folder / "back.pth"))
        self.assertEqual(payload(self.folder / "back.pth", "data/0"), numbered(0, 12))

    def test_further_outputs_come_from_a_torch_file_too(self):
        state = {name: {"w": tensor_of("float32", (4, 3), i)} for i, name in enumerate(("net", "net_ema"))}
        self.pth.write_bytes(torch_archive(state, [numbered(0, 12), numbered(100, 12)]))
        self.assert_success(self.cairn("convert", self.pth, self.out / "m.pth", "--ema", "--output", f"{self.out / 'net.pth'}:select=net.*"))
        self.assert_only(self.out, "m.pth", "model_ema_fp32.pth", "model_ema_bf16.pth", "net.pth")
        self.assertEqual(payload(self.out / "model_ema_fp32.pth", "data/0"), numbered(100, 12))
        self.assertEqual(payload(self.out / "net.pth", "data/0"), numbered(0, 12))

    def test_the_kernel_copies_from_a_torch_file_what_has_a_crc(self):
        large = numbered(0, 1 << 19)
        self.pth.write_bytes(torch_archive({"w": tensor_of("float32", (1 << 19,))}, [large]))
        report = json.loads(self.assert_success(self.cairn("convert", "--json", "--copy", "kernel", self.pth, self.folder / "o.pth")).stdout)
        self.assertEqual(report["verified_bytes"], 0)
        self.assert_success(self.cairn("convert", self.pth, self.folder / "safe.safetensors"))
        self.assert_success(self.cairn("convert", "--copy", "kernel", self.folder / "safe.safetensors", self.folder / "s.pth"))
        for name in ("o.pth", "s.pth"):
            with zipfile.ZipFile(self.folder / name) as archive:
                self.assertIsNone(archive.testzip())
            self.assertEqual(payload(self.folder / name, "data/0"), large)

    def test_integer_keys_stay_ints_from_file_to_file(self):
        self.assert_success(self.cairn("convert", self.pth, self.folder / "y.pth"))
        self.assertIn(b"K\x00}", payload(self.folder / "y.pth", "data.pkl"))  # BININT1 0, EMPTY_DICT

    def test_the_target_is_told_by_the_name(self):
        for name, is_directory in (("a.pth", False), ("a.ckpt", False), ("plain", True), ("b.pth/", True)):
            with self.subTest(name=name):
                self.assert_success(self.cairn("convert", self.dcp, f"{self.folder}/t/{name}"))
                self.assertEqual((self.folder / "t" / name).is_dir(), is_directory)
        self.assert_success(self.cairn("convert", self.dcp, self.folder / "t" / "c.pth", "--to", "dcp"))
        self.assertTrue((self.folder / "t" / "c.pth" / ".metadata").exists())
        (self.folder / "there").mkdir()
        self.assert_success(self.cairn("convert", self.dcp, self.folder / "there"))
        self.assertTrue((self.folder / "there" / ".metadata").exists())

    def test_names_and_types_change_on_the_way(self):
        self.assert_success(self.cairn("convert", self.dcp, self.out, "--select", "net.*", "--rename", "net=model", "--cast",
                                       "bfloat16", "--ranks", 3))
        self.assertEqual(self.names(self.out), (["model.weight", "model.bias"], []))
        self.assert_success(self.cairn("verify", "--strict", self.out))
        self.assert_success(self.cairn("convert", self.out, self.folder / "w.pth", "--select", "model.weight"))
        halves = b"".join(struct.pack("<f", v)[2:] for v in range(15))
        self.assertEqual(payload(self.folder / "w.pth", "data/0"), halves)

    def test_objects_may_be_dropped(self):
        result = self.assert_success(self.cairn("reshard", self.dcp, self.out, "--ranks", 1, "--objects", "drop"), notes=True)
        self.assertIn(b"skipped: 'step'", result.stderr)
        self.assertEqual(self.names(self.out)[1], [])

    def test_reshard_cuts_along_the_dimension(self):
        for dim, count in ((0, 2), (1, 2), (2, 1)):  # [5, 3]: it has no dimension 2
            target = self.folder / f"d{dim}"
            self.assert_success(self.cairn("reshard", self.dcp, target, "--ranks", 2, "--dim", dim), notes=True)
            listed = json.loads(self.cairn("ls", "--json", target, "net.weight").stdout)
            self.assertEqual(listed["tensors"][0]["chunk_count"], count)
            self.assert_success(self.cairn("convert", target, self.folder / f"d{dim}.pth"))
            self.assertEqual(payload(self.folder / f"d{dim}.pth", "data/0"), numbered(0, 15))

    def boxes(self, directory):
        listed = json.loads(self.cairn("ls", "--json", "--shards", directory, "net.weight").stdout)
        return [(chunk["offsets"], chunk["sizes"]) for chunk in listed["tensors"][0]["chunks"]]

    def three_keys(self):
        path = self.folder / "three.pth"
        path.write_bytes(torch_archive({"net": {"weight": tensor_of("float32", (4, 3))}, "optim": {"lr": 0.5}, "step": 7}, [numbered(0, 12)]))
        return path

    def test_a_dimension_that_no_tensor_has_is_told(self):
        said = self.assert_success(self.cairn("reshard", self.dcp, self.out, "--ranks", 2, "--dim", 7), notes=True).stderr
        self.assertIn(b"no tensor has a dimension 7", said)

    def test_top_level_keys_become_directories(self):
        source = self.three_keys()
        self.assert_success(self.cairn("convert", source, self.out, "--exclude", "step", "--split", "net=model,optim=optim_net", "--ranks", 2))
        self.assertEqual(self.names(self.out / "model"), (["weight"], []))
        self.assertEqual(self.names(self.out / "optim_net"), ([], ["lr"]))
        for part in ("model", "optim_net"):
            self.assert_success(self.cairn("verify", "--strict", self.out / part))
        self.assert_success(self.cairn("convert", self.out / "model", self.folder / "w.pth"))
        self.assertEqual(payload(self.folder / "w.pth", "data/0"), numbered(0, 12))

    def test_keys_without_a_directory_and_directories_without_a_key_are_refused(self):
        source = self.three_keys()
        for words, status, text in (("net=a,optim=b", 1, "no directory is named for the key 'step'"), ("net=a,optim=b,step=c", 1, "'step' holds one value"),
                                    ("x", 2, "KEY=DIRECTORY"), ("net=../b", 2, "name of a directory"), ("net=b,optim=b", 2, "twice")):
            self.assert_fails(self.cairn("convert", source, self.out, "--split", words), status, text)
            self.assertFalse(self.out.exists(), words)
        self.assert_fails(self.cairn("convert", source, self.out, "--exclude", "step", "--split", "net=a,optim=b,no=c"), 1, "no key 'no'")
        self.assertFalse(self.out.exists())
        self.assert_fails(self.cairn("convert", source, self.folder / "o.pth", "--split", "net=b"), 2, "split into DCP directories")

    def test_rules_say_which_tensors_are_cut_and_where(self):
        rules = self.folder / "rules"
        rules.write_text("# all by columns\n* shard(1)\n")
        self.assert_success(self.cairn("reshard", self.dcp, self.out, "--ranks", 3, "--layout", rules))
        self.assertEqual(self.boxes(self.out), [([0, column], [5, 1]) for column in range(3)])
        rules.write_text("* shard(1)\n*.weight replicated\n")
        self.assert_success(self.cairn("convert", self.out, self.folder / "whole", "--ranks", 3, "--layout", rules))
        self.assertEqual(self.boxes(self.folder / "whole"), [([0, 0], [5, 3])])

    def test_rules_that_are_none_or_without_use_are_named(self):
        rules = self.folder / "rules"
        for text, words in (("* rows\n", "line 1: 'rows': replicated or shard.D. expected"), ("b* shard(0)\n", "line 1: no tensor matches 'b.'")):
            rules.write_text(text)
            self.assert_fails(self.cairn("convert", self.dcp, self.out, "--layout", rules), 1, words)
            self.assertFalse(self.out.exists())
        self.assert_fails(self.cairn("convert", self.dcp, self.folder / "out.pth", "--layout", rules), 2, "rules for a layout")

    def test_fewer_rows_than_ranks_are_one_for_each_of_the_first(self):
        self.assert_success(self.cairn("reshard", self.dcp, self.out, "--ranks", 8))
        listed = json.loads(self.cairn("ls", "--json", "--shards", self.out, "net.weight").stdout)
        self.assertEqual([(c["offsets"], c["sizes"], c["file"]) for c in listed["tensors"][0]["chunks"]],
                         [([row, 0], [1, 3], f"__{row}_0.distcp") for row in range(5)])
        self.assert_success(self.cairn("verify", "--strict", self.out))

    def test_a_torch_file_takes_the_options_of_consolidate(self):
        for source in (self.dcp, self.pth):
            self.assert_success(self.cairn("convert", source, self.folder / "a.pth", "--align", 4096, "--overwrite"))
            self.assertEqual(offset_of(self.folder / "a.pth", "data/0") % 4096, 0)
        unsafe = tiny_checkpoint.Directory(self.folder / "unsafe")
        unsafe.tensor(*tiny_checkpoint.rows("w", (2,), [], ["__0_0.distcp"])).object("odd", collections.deque([1]), "__0_0.distcp").write()
        result = self.assert_success(self.cairn("convert", self.folder / "unsafe", self.folder / "s.pth", "--objects", "safe"), notes=True)
        self.assertIn(b"'odd'", result.stderr)
        self.assertTrue((self.folder / "s.pth.objects.pth").exists())

    def test_a_directory_does_not_take_them(self):
        for words in (("--align", 4096), ("--objects", "safe")):
            self.assert_fails(self.cairn("convert", self.dcp, self.out, *words), 2, "torch file")
            self.assert_fails(self.cairn("reshard", self.dcp, self.out, "--ranks", 2, *words), 2, "torch file")
        self.assertFalse(self.out.exists())

    def test_the_bytes_do_not_depend_on_ranks_and_threads(self):
        trees = []
        for ranks, threads in ((0, 1), (0, 4), (1, 1), (2, 2), (3, 1), (4, 1)):
            parent = self.folder / f"np{ranks}.{threads}"
            parent.mkdir()
            words = ("reshard", self.dcp, "out", "--ranks", 3, "--threads", threads)
            launcher = [os.environ.get("CAIRN_ENV", ""), "mpirun", "-n", ranks] if ranks else []
            if ranks and not launcher[0]:
                continue
            self.assert_success(run([*launcher, PROGRAM, *words], cwd=parent))
            trees.append(tree(parent / "out"))
        for other in trees[1:]:
            self.assertEqual(trees[0], other)

    def test_an_existing_checkpoint_is_replaced_with_overwrite_only(self):
        self.assert_success(self.cairn("convert", self.dcp, self.out))
        before = tree(self.out)
        self.assert_fails(self.cairn("convert", self.pth, self.out), 1, "--overwrite")
        self.assertEqual(tree(self.out), before)
        self.assert_success(self.cairn("convert", self.pth, self.out, "--overwrite"))
        self.assert_only(self.out, ".metadata", "__0_1.distcp")
        self.assertEqual(self.names(self.out)[0], ["net.weight"])
        self.assert_success(self.cairn("verify", "--strict", self.out))

    def test_a_failure_leaves_the_old_checkpoint_and_nothing_new(self):
        self.assert_success(self.cairn("convert", self.dcp, self.out))
        before = tree(self.out)
        data = bytearray(self.pth.read_bytes())
        at = data.index(numbered(0, 12))
        data[at + 5] ^= 1
        self.pth.write_bytes(data)
        for ranks in (0, 2):
            words = ("convert", "--overwrite", self.pth, self.out, "--ranks", 2)
            result = self.mpirun(ranks, *words) if ranks else self.cairn(*words)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(b"'net.weight'", result.stderr)
            self.assertIn(b"x.pth at byte", result.stderr)
            self.assertEqual(tree(self.out), before)
        self.assert_success(self.cairn("convert", "--overwrite", "--verify-source", "off", self.pth, self.out))

    def test_a_new_directory_that_fails_is_gone(self):
        shutil.copy(self.dcp / "__0_0.distcp", self.dcp / "__1_0.distcp")
        self.assert_fails(self.cairn("reshard", self.dcp, self.out, "--ranks", 2), 1)
        self.assertFalse(self.out.exists())

    def test_a_signal_leaves_nothing_half_published(self):
        big = tiny_checkpoint.large(self.folder / "big", 96)
        command = [PROGRAM, "reshard", str(big), str(self.out), "--ranks", "2", "--threads", "1"]
        for number in (signal.SIGTERM, signal.SIGKILL):
            process = start_until_shard(command, self.out)
            if process is None:
                continue  # it was over before
            os.kill(process.pid, number)
            os.kill(process.pid, signal.SIGCONT)
            self.assertNotEqual(finish(process).returncode, 0)
            self.assertFalse((self.out / ".metadata").exists())
            if number == signal.SIGTERM:
                self.assertFalse(list(self.out.rglob("*")))
        self.assert_success(self.cairn("reshard", big, self.out, "--ranks", 2, "--overwrite"), notes=True)
        self.assert_success(self.cairn("verify", "--strict", self.out), notes=True)

    def test_places_that_would_harm_the_source_are_refused(self):
        self.assert_fails(self.cairn("reshard", self.dcp, self.dcp, "--ranks", 2, "--overwrite"), 1, "inside")
        self.assert_fails(self.cairn("reshard", self.dcp, self.dcp / "new", "--ranks", 2), 1, "inside")
        self.assert_fails(self.cairn("convert", self.pth, self.pth, "--overwrite"), 1, "replace")
        (self.folder / "link.pth").symlink_to(self.pth)
        self.assert_fails(self.cairn("convert", self.pth, self.folder / "link.pth", "--overwrite"), 1, "replace")
        self.assert_fails(self.cairn("convert", self.dcp, self.pth, "--to", "dcp"), 1, "directory")
        self.assertEqual(payload(self.pth, "data/0"), numbered(0, 12))

    def test_usage_errors(self):
        for words in (("convert", self.dcp), ("convert", self.dcp, "o.h5"),
                      ("convert", self.dcp, self.out, "--to", "hdf5"), ("convert", self.dcp, "o.pth", "--ranks", 2),
                      ("convert", self.dcp, self.out, "--ranks", 0), ("reshard", self.dcp, self.out),
                      ("reshard", self.dcp, self.out, "--ranks", "x"), ("reshard", self.dcp, self.out, "--ranks", 2, "--split", "a=b"),
                      ("convert", self.dcp, self.out, "--dim", -1),
                      *(("convert", self.dcp, target, *words) for target in (self.out, "o.safetensors")
                        for words in (("--ema",), ("--output", "x.pth:flat"), ("--output", "x.pth:select=*"), ("--copy", "kernel"))),
                      *(("reshard", self.dcp, self.out, "--ranks", 2, word) for word in ("--ema", "--fabric", "--whole-iteration")),
                      ("convert", self.dcp, "o.pth", "--copy", "kernel", "--write", "gather"),
                      ("convert", self.dcp, "o.pth", "--copy", "kernel", "--verify-source", "on")):
            with self.subTest(words=words[2:]):
                self.assert_fails(self.cairn(*words, cwd=self.folder), 2)
        self.assertFalse(self.out.exists())

    def test_only_convert_reads_torch_files(self):
        self.assert_fails(self.cairn("reshard", self.pth, self.out, "--ranks", 2), 1, "torch file", "convert")
        self.assert_fails(self.cairn("consolidate", self.pth, self.folder / "o.pth"), 1, "torch file", "convert")

    def test_files_of_other_kinds_are_refused_by_name(self):
        good = [("data.pkl", pickled({"w": tensor_of("float32", (2,))})), ("data/0", numbered(0, 2)), ("version", "3\n")]
        tar = bytearray(10240)
        tar[257:262] = b"ustar"
        kinds = {
            "script": (archive_of([*good, ("constants.pkl", b""), ("code/m.py", b"")]), "torchscript"),
            "script2": (archive_of([("code/m.py", b""), *good]), "torchscript"),
            "big": (archive_of([*good, ("byteorder", "big")]), "big-endian"),
            "legacy": (b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19." + bytes(64), r"before torch 1\.6"),
            "tar": (bytes(tar), "tar archive"),
            "deflated": (archive_of([(n, c if n != "data/0" else bytes(4000)) for n, c in good], zipfile.ZIP_DEFLATED), "compressed"),
            "list": (archive_of([("data.pkl", pickled([1]))]), "list"),
            "float_key": (archive_of([("data.pkl", pickled({"a": {1.5: 1}}))]), "'a'.*real"),
            "no_storage": (archive_of(good[:1]), "data/"),
            "short": (archive_of([good[0], ("data/0", b"1234567")]), "7 bytes, 8 expected"),
        }
        for name, (content, words) in kinds.items():
            with self.subTest(kind=name):
                path = self.folder / f"{name}.pth"
                path.write_bytes(content)
                self.assert_fails(self.cairn("ls", path), 1, words)
                self.assert_fails(self.cairn("convert", path, self.out), 1, words)
                self.assertFalse(self.out.exists())

    def test_any_archive_name_and_no_byteorder(self):
        for i, records in enumerate(([], [("byteorder", "little")], [(".data/serialization_id", "0" * 40)])):
            path = self.folder / f"old{i}.pth"
            path.write_bytes(archive_of([("data.pkl", pickled({"w": tensor_of("float32", (2,))})), ("data/0", numbered(0, 2)), *records]))
            self.assert_success(self.cairn("convert", path, self.folder / f"o{i}"))
            self.assertEqual(self.names(self.folder / f"o{i}"), (["w"], []))


def start_until_shard(command, out):
    """Starts the command and stops it once it has made its first shard; None when it was over before that."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while process.poll() is None:
        if out.exists() and any(p.suffix == ".distcp" for p in out.iterdir()):
            os.kill(process.pid, signal.SIGSTOP)
            if not (out / ".metadata").exists():
                return process
            os.kill(process.pid, signal.SIGCONT)
            break
        time.sleep(0.0005)
    finish(process)
    return None


if __name__ == "__main__":
    unittest.main()
