# SPDX-License-Identifier: BSD-3-Clause
"""Damaged sources and machines that refuse: a sentence, status 1, no temporary, the old output untouched."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import unittest

import tiny_checkpoint
from program import PROGRAM, CliTest, described, finish, part_of, payload, run, start_until_part

IS_ROOT = os.geteuid() == 0


class DamagedSource(CliTest):
    def setUp(self):
        super().setUp()
        self.source = tiny_checkpoint.small(self.folder / "source")
        self.out = self.folder / "out"
        self.out.mkdir()
        self.target = self.out / "m.pth"
        self.target.write_bytes(b"precious")

    def assert_refused(self, *words):
        self.assert_fails(self.cairn("consolidate", "--overwrite", self.source, self.target), 1, *words)
        self.assertEqual(self.target.read_bytes(), b"precious")
        self.assert_only(self.out, "m.pth")

    def shard(self, rank=1):
        return self.source / f"__{rank}_0.distcp"

    def test_missing_shard(self):
        self.shard().unlink()
        self.assert_refused("__1_0.distcp")

    def test_shard_cut_by_one_byte(self):
        data = self.shard().read_bytes()
        self.shard().write_bytes(data[:-1])
        self.assert_refused("__1_0.distcp", str(len(data) - 1))

    def test_empty_shard_that_is_referenced(self):
        self.shard().write_bytes(b"")
        self.assert_refused("__1_0.distcp")

    def test_swapped_shards(self):
        size = max(self.shard(0).stat().st_size, self.shard(1).stat().st_size)
        for rank in (0, 1):  # Of equal length, so that only the items tell.
            with open(self.shard(rank), "ab") as stream:
                stream.truncate(size)
        a, b = self.shard(0).read_bytes(), self.shard(1).read_bytes()
        self.shard(0).write_bytes(b)
        self.shard(1).write_bytes(a)
        self.assert_refused("distcp")

    def test_objects_that_share_their_bytes(self):
        shutil.rmtree(self.source)
        directory = tiny_checkpoint.Directory(self.source).object("a", 7)
        directory.objects.append(("b", *directory.objects[0][1:]))
        directory.write()
        self.assert_refused("'b'", "objects")

    def test_two_items_of_different_shape_swapped(self):
        shutil.rmtree(self.source)
        directory = tiny_checkpoint.Directory(self.source)
        directory.tensor(*tiny_checkpoint.rows("a", (2, 3), [], ["a.distcp"]))
        directory.tensor(*tiny_checkpoint.rows("b", (3, 2), [], ["b.distcp"]))
        directory.write()
        (self.source / "a.distcp").rename(self.source / "c")
        (self.source / "b.distcp").rename(self.source / "a.distcp")
        (self.source / "c").rename(self.source / "b.distcp")
        self.assert_refused("a.distcp|b.distcp", r"\b[ab]\b")

    def test_directory_in_a_shards_place(self):
        self.shard().unlink()
        self.shard().mkdir()
        self.assert_refused("__1_0.distcp")

    def test_shard_that_links_out_of_the_checkpoint(self):
        outside = self.folder / "outside.distcp"
        shutil.move(self.shard(), outside)
        self.shard().symlink_to(outside)
        self.assert_refused("__1_0.distcp")

    def test_shard_of_zeros(self):
        self.shard().write_bytes(bytes(self.shard().stat().st_size))
        self.assert_refused("__1_0.distcp")

    def test_flipped_bit_in_a_payload(self):
        data = bytearray(self.shard(0).read_bytes())
        at = data.index(tiny_checkpoint.numbered(0, 9)) + 4
        data[at] ^= 1
        self.shard(0).write_bytes(data)
        report = self.cairn("consolidate", "--json", self.source, self.folder / "unchecked.pth")
        if report.returncode == 0 and json.loads(report.stdout)["verified_bytes"] == 0:
            self.skipTest("this build compares no CRCs of its source, and says so: verified_bytes is 0")
        self.assert_refused("__0_0.distcp", "net.weight", "crc")

    def test_flipped_bit_in_an_object(self):
        data = bytearray(self.shard(1).read_bytes())
        at = data.rindex(b"text")
        data[at] ^= 1
        self.shard(1).write_bytes(data)
        self.assert_refused("__1_0.distcp", "note")

    def test_every_cut_of_the_metadata(self):
        whole = (self.source / ".metadata").read_bytes()
        for length in range(0, len(whole), 37):
            (self.source / ".metadata").write_bytes(whole[:length])
            self.assert_fails(self.cairn("ls", self.source), 1)

    def test_metadata_that_is_a_directory_or_unreadable(self):
        (self.source / ".metadata").unlink()
        (self.source / ".metadata").mkdir()
        self.assert_refused("metadata")

    def test_two_names_with_one_path(self):
        directory = tiny_checkpoint.Directory(self.folder / "clash")
        directory.tensor(*tiny_checkpoint.rows("a.b", (1,), [], ["f"]), path=("a", "b"))
        directory.tensor(*tiny_checkpoint.rows("other", (1,), [], ["f"]), path=("a", "b"))
        self.source = directory.write()
        self.assert_refused("a.b", "other")

    def test_a_leaf_under_a_leaf(self):
        for order in (0, 1):
            directory = tiny_checkpoint.Directory(self.folder / f"leaf{order}")
            both = [("outer", ("a",)), ("inner", ("a", "b"))]
            for name, path in both[::-1] if order else both:
                directory.tensor(*tiny_checkpoint.rows(name, (1,), [], ["f"]), path=path)
            self.source = directory.write()
            self.assert_refused("outer", "inner")


class Machine(CliTest):
    def setUp(self):
        super().setUp()
        self.source = tiny_checkpoint.small(self.folder / "source")

    def mount(self, *options, kind="tmpfs", device="tmpfs"):
        if not IS_ROOT:
            self.skipTest("mounting needs root")
        where = self.folder / "mounted"
        where.mkdir()
        result = subprocess.run(["mount", "-t", kind, *options, str(device), str(where)], capture_output=True)
        if result.returncode != 0:
            self.skipTest(f"mount is not allowed here: {result.stderr.decode().strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", str(where)], check=False)
        return where

    def mount_without_fallocate(self, mib):
        """ext2 cannot reserve room: what others take during a run is missed by its writes only."""
        make = shutil.which("mkfs.ext2", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if not make:
            self.skipTest("mkfs.ext2 is missing")
        image = self.folder / "image"
        with open(image, "wb") as stream:
            stream.truncate(mib << 20)
        subprocess.run([make, "-q", "-F", str(image)], check=True, capture_output=True)
        return self.mount("-o", "loop", kind="ext2", device=image)

    def run_while_others_fill(self, disk, source, *arguments):
        """The disk is filled by someone else once the run has claimed its temporary."""
        target = disk / "m.pth"
        for _ in range(10):
            process = start_until_part([PROGRAM, "consolidate", source, target, "--threads", "1", *arguments], target)
            if process:
                break
            target.unlink(missing_ok=True)
        else:
            self.skipTest("the run ended each time before it could be stopped")
        self.addCleanup(lambda: process.poll() is None and process.kill())
        with open(disk / "others", "wb", buffering=0) as others:
            try:
                while True:
                    others.write(bytes(1 << 20))
            except OSError:
                pass
        process.send_signal(signal.SIGCONT)
        return target, finish(process)

    def test_a_target_without_room_is_found_before_any_work(self):
        small_disk = self.mount("-o", "size=8m")
        source = tiny_checkpoint.large(self.folder / "large", 12)
        self.assert_fails(self.cairn("consolidate", source, small_disk / "m.pth"), 1, "space|room|full")
        self.assert_only(small_disk)

    def test_what_is_told_to_be_needed_is_the_sum_of_all_files(self):
        small_disk = self.mount("-o", "size=8m")
        source = tiny_checkpoint.large(self.folder / "large", 24)
        for name, words in (("ckpt", ("--ranks", 4)), ("hub", ("--to", "safetensors", "--max-shard-size", "5MiB")), ("new/m.pth", ())):
            with self.subTest(name=name):
                result = self.cairn("convert", source, small_disk / "parent" / name, *words)
                self.assert_fails(result, 1, "disk full")
                needed, free = map(int, re.search(rb"needs (\d+) bytes, (\d+) are free", result.stderr).groups())
                self.assertGreaterEqual(needed, 24 << 20)
                self.assertLessEqual(free, 8 << 20)
                self.assert_only(small_disk)

    def test_overwrite_needs_room_for_both(self):
        small_disk = self.mount("-o", "size=8m")
        source = tiny_checkpoint.large(self.folder / "large", 5)
        target = small_disk / "m.pth"
        self.assert_success(self.cairn("consolidate", source, target))
        before = target.read_bytes()
        self.assert_fails(self.cairn("consolidate", "--overwrite", source, target), 1, "space|room|full")
        self.assertEqual(target.read_bytes(), before)
        self.assert_only(small_disk, "m.pth")

    def test_a_disk_that_fills_during_the_run(self):
        disk = self.mount_without_fallocate(64)
        source = tiny_checkpoint.large(self.folder / "large", 48)
        target, result = self.run_while_others_fill(disk, source)
        self.assert_fails(result, 1, "disk full", r"m\.pth")
        self.assert_only(disk, "lost+found", "others")

    def test_an_overwrite_on_a_disk_that_fills_keeps_the_old_output(self):
        disk = self.mount_without_fallocate(64)
        source = tiny_checkpoint.large(self.folder / "large", 48)
        (disk / "m.pth").write_bytes(b"precious")
        target, result = self.run_while_others_fill(disk, source, "--overwrite")
        self.assert_fails(result, 1, "disk full", r"m\.pth")
        self.assertEqual(target.read_bytes(), b"precious")
        self.assert_only(disk, "lost+found", "m.pth", "others")

    def test_room_once_claimed_is_not_lost_to_others(self):
        disk = self.mount("-o", "size=64m")
        source = tiny_checkpoint.large(self.folder / "large", 48)
        target, result = self.run_while_others_fill(disk, source)
        self.assertEqual(result.returncode, 0, described(result))
        self.assertFalse(part_of(target).exists())

    def test_no_room_is_needed_beyond_the_output(self):
        source = tiny_checkpoint.large(self.folder / "large", 20)
        disk = self.mount("-o", "size=21m")
        self.assert_success(self.cairn("consolidate", source, disk / "m.pth"))
        self.assert_only(disk, "m.pth")

    def test_a_read_only_file_system(self):
        where = self.mount()
        subprocess.run(["mount", "-o", "remount,ro", str(where)], check=True)
        self.assert_fails(self.cairn("consolidate", self.source, where / "m.pth"), 1, "read-only|permission")
        self.assert_fails(self.cairn("consolidate", self.source, where / "new" / "m.pth"), 1, "read-only|permission")

    def as_nobody(self, *arguments):
        if not IS_ROOT:
            return self.cairn(*arguments)
        if not shutil.which("setpriv"):
            self.skipTest("setpriv is missing, and root ignores file modes")
        program = shutil.copy(PROGRAM, self.folder / "cairn")  # The build tree may be closed to others.
        return run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program, *arguments])

    def test_a_target_directory_without_permission(self):
        closed = self.folder / "closed"
        closed.mkdir(mode=0o555)
        self.assert_fails(self.as_nobody("consolidate", self.source, closed / "m.pth"), 1, "permission", "closed")
        self.assert_fails(self.as_nobody("consolidate", self.source, closed / "new" / "m.pth"), 1, "permission", "closed")

    def test_an_unreadable_shard(self):
        (self.source / "__1_0.distcp").chmod(0)
        opened = self.folder / "opened"
        opened.mkdir()
        opened.chmod(0o777)
        self.assert_fails(self.as_nobody("consolidate", self.source, opened / "m.pth"), 1, "permission", "__1_0.distcp")
        self.assert_only(opened)

    def test_a_limit_on_file_sizes_is_an_error_like_a_full_disk(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))

        out = self.folder / "limited"
        out.mkdir()
        self.assert_fails(self.cairn("consolidate", self.source, out / "m.pth", preexec_fn=limit), 1, "too large")
        self.assert_only(out)
        self.assert_success(self.cairn("reshard", self.source, out, "--ranks", 1))
        before = {p.name: p.read_bytes() for p in out.iterdir()}
        for words in (("reshard", "--ranks", 2), ("convert", "--ranks", 3)):
            for target in (out, self.folder / "new"):
                result = self.cairn(*words, self.source, target, "--overwrite", preexec_fn=limit)
                self.assert_fails(result, 1, "too large", rf"{target.name}/.*(__\d_\d\.distcp|\.metadata\.cairn-part)")
            self.assertEqual({p.name: p.read_bytes() for p in out.iterdir()}, before)
            self.assertFalse((self.folder / "new").exists())

    def test_five_thousand_shards_with_256_descriptors(self):
        directory = tiny_checkpoint.Directory(self.folder / "wide")
        pieces = [((i,), (1,), f"__{i}_0.distcp", tiny_checkpoint.numbered(i, 1)) for i in range(5000)]
        source = directory.tensor("w", "float32", (5000,), pieces).write()

        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

        self.assert_success(self.cairn("verify", "--metadata-only", source, preexec_fn=limit))
        self.assert_success(self.cairn("consolidate", source, self.folder / "m.pth", "--threads", "4", preexec_fn=limit))
        self.assertEqual(payload(self.folder / "m.pth", "data/0"), tiny_checkpoint.numbered(0, 5000))


if __name__ == "__main__":
    unittest.main()
