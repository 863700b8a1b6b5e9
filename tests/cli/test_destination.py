# SPDX-License-Identifier: BSD-3-Clause
"""consolidate: where the output may go, and what is left beside it."""
import fcntl
import json
import os
import unittest
import zipfile

import tiny_checkpoint
from program import CliTest, part_of, payload


class Destination(CliTest):
    def setUp(self):
        super().setUp()
        self.source = tiny_checkpoint.small(self.folder / "source")
        self.out = self.folder / "out"
        self.out.mkdir()

    def consolidate(self, *arguments, **options):
        return self.cairn("consolidate", self.source, *arguments, **options)

    def assert_good(self, path):
        with zipfile.ZipFile(path) as archive:
            self.assertIsNone(archive.testzip())
        self.assertEqual(payload(path, "data/0"), tiny_checkpoint.numbered(0, 15))
        self.assertEqual(payload(path, "data/1"), tiny_checkpoint.numbered(0, 4))

    def stem(self, path):
        return zipfile.ZipFile(path).namelist()[0].split("/")[0]

    def test_a_file_name(self):
        target = self.out / "a.ckpt.full"
        self.assert_success(self.consolidate(target))
        self.assert_good(target)
        self.assertEqual(self.stem(target), "a.ckpt")
        self.assert_only(self.out, "a.ckpt.full")

    def test_a_lightning_folder_names_the_file_wherever_one_stands(self):
        (self.source / "meta.pt").write_bytes(tiny_checkpoint.torch_archive({"epoch": 1}))
        target = self.folder / "source.consolidated"
        for source, place in ((".", self.source), ("source/", self.folder), ("../source/.", self.source)):
            with self.subTest(source=source):
                self.assert_success(self.cairn("consolidate", source, "--quiet", cwd=place))
                self.assert_good(target)
                target.unlink()
        target.mkdir()
        self.assert_fails(self.consolidate(), 1, "a directory is there")
        self.assert_only(target)

    def test_an_existing_directory_gets_model_pth(self):
        self.assert_success(self.consolidate(self.out))
        self.assert_good(self.out / "model.pth")

    def test_a_new_directory_ends_in_a_slash(self):
        self.assert_success(self.consolidate(f"{self.out}/new/"))
        self.assert_good(self.out / "new" / "model.pth")

    def test_missing_parents_are_made(self):
        target = self.out / "x" / "y" / "m.pth"
        self.assert_success(self.consolidate(target))
        self.assert_good(target)

    def test_a_bare_name_is_in_the_working_directory(self):
        self.assert_success(self.consolidate("m.pth", cwd=self.out))
        self.assert_good(self.out / "m.pth")

    def test_omitted_is_a_usage_error(self):
        self.assert_fails(self.consolidate(), 2)

    def test_json_reports_the_path_and_figures(self):
        report = json.loads(self.assert_success(self.consolidate(self.out, "--json")).stdout)
        target = self.out / "model.pth"
        self.assertEqual(report["outputs"], [{"path": str(target), "bytes": target.stat().st_size, "tensors": 2, "objects": 2}])
        self.assertEqual(report["written_bytes"], target.stat().st_size)
        self.assertEqual((report["ranks"], report["skipped"], report["warnings"]), (1, [], []))
        for key in ("read_bytes", "verified_bytes", "seconds", "peak_rss_bytes", "threads"):
            self.assertGreaterEqual(report[key], 0)

    def test_an_existing_output_is_kept_without_overwrite(self):
        target = self.out / "m.pth"
        target.write_bytes(b"precious")
        self.assert_fails(self.consolidate(target), 1, "exists", "--overwrite")
        self.assert_json_error(self.consolidate(target, "--json"), 1, "already_exists")
        self.assertEqual(target.read_bytes(), b"precious")
        self.assert_only(self.out, "m.pth")
        self.assert_success(self.consolidate(target, "--overwrite"))
        self.assert_good(target)
        self.assert_only(self.out, "m.pth")

    def test_model_pth_in_a_directory_is_kept_too(self):
        (self.out / "model.pth").write_bytes(b"precious")
        self.assert_fails(self.consolidate(self.out), 1, "exists")
        self.assertEqual((self.out / "model.pth").read_bytes(), b"precious")

    def test_never_inside_the_checkpoint_nor_over_it(self):
        before = sorted(p.name for p in self.source.iterdir())
        for target in (self.source / "m.pth", self.source, self.source / ".metadata", self.source / "__0_0.distcp",
                       f"{self.source}/sub/", self.source / "sub" / "m.pth", self.source / ".." / "source" / "m.pth"):
            with self.subTest(target=target):
                self.assert_fails(self.consolidate(target, "--overwrite"), 1)
        self.assertEqual(sorted(p.name for p in self.source.iterdir()), before)

    def test_not_inside_the_checkpoint_by_way_of_a_directory_to_be_made(self):
        target = self.folder / "new" / ".." / "source" / "m.pth"
        self.assert_fails(self.consolidate(target), 1, "new")
        self.assertFalse((self.source / "m.pth").exists())
        self.assertFalse((self.folder / "new").exists())

    def test_not_over_a_shard_through_a_link(self):
        shard = self.source / "__0_0.distcp"
        before = shard.read_bytes()
        (self.out / "link").symlink_to(shard)
        self.assert_fails(self.consolidate(self.out / "link", "--overwrite"), 1, "inside")
        self.assertEqual(shard.read_bytes(), before)

    def test_not_inside_the_checkpoint_through_a_link(self):
        (self.out / "link").symlink_to(self.source)
        self.assert_fails(self.consolidate(self.out / "link" / "m.pth"), 1)
        self.assertFalse((self.source / "m.pth").exists())

    def test_a_link_is_followed_once_and_stays(self):
        (self.folder / "store").mkdir()
        real = self.folder / "store" / "real.pth"
        real.write_bytes(b"old")
        link = self.out / "m.pth"
        link.symlink_to(real)
        self.assert_fails(self.consolidate(link), 1, "exists")
        self.assert_success(self.consolidate(link, "--overwrite"))
        self.assertTrue(link.is_symlink())
        self.assert_good(real)
        self.assert_only(self.folder / "store", "real.pth")

    def test_a_dangling_link_makes_its_target(self):
        (self.folder / "store").mkdir()
        link = self.out / "m.pth"
        link.symlink_to(self.folder / "store" / "real.pth")
        self.assert_success(self.consolidate(link))
        self.assertTrue(link.is_symlink())
        self.assert_good(self.folder / "store" / "real.pth")

    def test_devices_and_pipes_are_refused(self):
        fifo = self.out / "fifo"
        os.mkfifo(fifo)
        for target in (fifo, "/dev/null", "/dev/full"):
            with self.subTest(target=target):
                self.assert_fails(self.consolidate(target, "--overwrite", timeout=20), 1)
        self.assert_only(self.out, "fifo")

    def test_a_file_where_a_directory_must_be(self):
        (self.out / "file").write_bytes(b"x")
        self.assert_fails(self.consolidate(self.out / "file" / "m.pth"), 1)
        self.assert_fails(self.consolidate(f"{self.out}/file/"), 1)
        self.assertEqual((self.out / "file").read_bytes(), b"x")

    def test_an_output_is_neither_another_one_nor_the_map(self):
        names = self.out / "names"
        names.write_text("step\tstep\nnote\tnote\nnet.weight\tw\nnet.bias\tb\n")
        (self.out / "link").symlink_to("names")
        main = self.out / "m.pth"
        for arguments in ((main, "--output", f"{self.out}/./m.pth:unwrap"), (main, "--output", f"{self.out}/x/:unwrap"),
                          (main, "--output", f"{self.out}/.m.pth.cairn-part:unwrap"), (names, "--map", names),
                          (main, "--map", names, "--output", f"{self.out}/link:unwrap")):
            self.assert_fails(self.consolidate(*arguments, "--overwrite"), 2)
            self.assert_only(self.out, "link", "names")
        self.assertTrue(names.read_text().startswith("step"))

    def test_a_killed_runs_leftover_needs_overwrite(self):
        target = self.out / "m.pth"
        part_of(target).write_bytes(b"half")
        self.assert_fails(self.consolidate(target), 1, "--overwrite", "cairn-part")
        self.assertEqual(part_of(target).read_bytes(), b"half")
        self.assert_success(self.consolidate(target, "--overwrite"))
        self.assert_good(target)
        self.assert_only(self.out, "m.pth")

    def test_a_locked_leftover_is_another_run_alive(self):
        target = self.out / "m.pth"
        with open(part_of(target), "wb") as held:
            fcntl.lockf(held, fcntl.LOCK_EX)
            for extra in ([], ["--overwrite"]):
                self.assert_fails(self.consolidate(target, *extra), 1, "another|running|in use|locked")
        self.assert_only(self.out, part_of(target).name)

    def test_a_leftover_that_is_a_link_is_not_written_through(self):
        victim = self.folder / "victim"
        victim.write_bytes(b"precious")
        target = self.out / "m.pth"
        part_of(target).symlink_to(victim)
        self.consolidate(target, "--overwrite")
        self.assertEqual(victim.read_bytes(), b"precious")

    def test_shards_may_lie_in_sub_folders(self):
        directory = tiny_checkpoint.Directory(self.folder / "deep")
        directory.tensor(*tiny_checkpoint.rows("w", (5, 3), [3], ["a/b/__0_0.distcp", "c/__1_0.distcp"]))
        self.source = directory.write()
        self.assert_success(self.cairn("verify", "--metadata-only", self.source))
        self.assert_success(self.consolidate(self.out / "m.pth"))
        self.assertEqual(payload(self.out / "m.pth", "data/0"), tiny_checkpoint.numbered(0, 15))

    def test_options_give_the_same_bytes(self):
        self.assert_success(self.consolidate(self.out / "a" / "m.pth"))
        for i, extra in enumerate((["--no-sync"], ["--threads", "1"], ["--threads", "8"], ["--max-memory", "2MiB"], ["--quiet"],
                                   ["--objects", "keep"], ["--objects", "safe"], ["--align", "64"], ["--copy", "user"],
                                   ["--verify-source", "off"], ["--progress", "never"], ["--no-mpi"], ["--max-memory", "4MB"])):
            with self.subTest(extra=extra):
                target = self.out / str(i) / "m.pth"
                self.assert_success(self.consolidate(target, *extra))
                self.assertEqual(target.read_bytes(), (self.out / "a" / "m.pth").read_bytes())


if __name__ == "__main__":
    unittest.main()
