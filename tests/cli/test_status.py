# SPDX-License-Identifier: BSD-3-Clause
"""Exit status, the two output streams, --help, --json errors, version."""
import json
import os
import unittest

import tiny_checkpoint
from program import CliTest, described

COMMANDS = ("ls", "verify", "consolidate", "version")


class Status(CliTest):
    def setUp(self):
        super().setUp()
        self.source = tiny_checkpoint.small(self.folder / "source")

    def test_help_everywhere_is_data_and_succeeds(self):
        for command in ((), *((c,) for c in COMMANDS)):
            with self.subTest(command=command):
                result = self.assert_success(self.cairn(*command, "--help"))
                self.assertIn(b"--json" if command else b"consolidate", result.stdout)

    def test_version_names_itself_and_its_parts(self):
        result = self.assert_success(self.cairn("version"))
        self.assertRegex(result.stdout, rb"0\.1\.0")
        self.assertIn(b"MPI", result.stdout)
        self.assertIsInstance(json.loads(self.assert_success(self.cairn("version", "--json")).stdout), dict)

    def test_usage_errors_are_2(self):
        target = self.folder / "out.pth"
        for arguments in ([], ["frobnicate"], ["ls"], ["ls", "--frobnicate", self.source], ["consolidate"],
                          ["verify"], ["version", "extra"], ["consolidate", self.source, target, "third"],
                          ["consolidate", self.source, target, "--threads", "0"],
                          ["consolidate", self.source, target, "--threads", "many"],
                          ["consolidate", self.source, target, "--threads", "-1"],
                          ["consolidate", self.source, target, "--max-memory", "3XB"],
                          ["consolidate", self.source, target, "--max-memory"],
                          ["consolidate", self.source, target, "--progress", "sometimes"],
                          ["consolidate", self.source, target, "--objects", "burn"],
                          ["consolidate", self.source, target, "--align", "32"],
                          ["consolidate", self.source, target, "--align", "65536"],
                          ["consolidate", self.source, target, "--align", "96"],
                          ["consolidate", self.source, target, "--align", "64KiB"],
                          ["consolidate", self.source, target, "--copy", "magic"],
                          ["consolidate", self.source, target, "--verify-source", "maybe"],
                          ["ls", "--mpi", "--no-mpi", self.source]):
            with self.subTest(arguments=arguments):
                self.assert_fails(self.cairn(*arguments), 2)
        self.assertFalse(target.exists())

    def test_options_that_are_not_built_yet_are_unknown(self):
        for option in ("--stats",):
            with self.subTest(option=option):
                self.assert_fails(self.cairn("consolidate", self.source, self.folder / "o.pth", option), 2)

    def test_json_reports_usage_errors_too(self):
        for arguments in (["ls", "--json"], ["ls", "--json", "--frobnicate", self.source], ["consolidate", self.source, "--json"]):
            with self.subTest(arguments=arguments):
                self.assert_json_error(self.cairn(*arguments), 2, "invalid_argument")

    def test_json_reports_errors_of_the_data(self):
        for command in (["ls"], ["verify", "--metadata-only"]):
            self.assert_json_error(self.cairn(*command, "--json", self.folder / "absent"), 1, "not_found")
        (self.source / ".metadata").write_bytes(b"\x80\x04]")
        self.assert_json_error(self.cairn("ls", "--json", self.source), 1, "corrupt")

    def test_a_missing_path_is_named(self):
        for command in (["ls"], ["verify", "--metadata-only"], ["consolidate"]):
            with self.subTest(command=command):
                tail = [self.folder / "o.pth"] if command == ["consolidate"] else []
                self.assert_fails(self.cairn(*command, self.folder / "absent", *tail), 1, "absent")

    def test_urls_are_refused_with_a_sentence(self):
        for url in ("s3://bucket/run", "gs://b/x", "abfs://c/y", "hf://m"):
            with self.subTest(url=url):
                self.assert_fails(self.cairn("ls", url), 2, url.split(":")[0])
                self.assert_json_error(self.cairn("ls", "--json", url), 2, "unsupported")
        self.assert_fails(self.cairn("consolidate", self.source, "s3://bucket/out.pth"), 2, "s3")

    def test_file_urls_are_paths(self):
        self.assertEqual(self.assert_success(self.cairn("ls", f"file://{self.source}")).stdout,
                         self.assert_success(self.cairn("ls", self.source)).stdout)

    def test_consolidate_says_nothing_when_all_is_well(self):
        result = self.assert_success(self.cairn("consolidate", self.source, self.folder / "o.pth"))
        self.assertEqual(result.stdout, b"")

    def test_progress_always_ends_with_the_closing_line(self):
        result = self.assert_success(self.cairn("consolidate", self.source, self.folder / "o.pth", "--progress", "always", "--no-sync"),
                                     notes=True)
        self.assertEqual(result.stdout, b"")
        self.assertRegex(result.stderr, rb"GB/s")
        self.assertRegex(result.stderr, rb"(?i)sync")

    def test_a_closed_pipe_ends_silently(self):
        for arguments in (["ls", self.source], ["ls", "--json", self.source], ["version"], ["--help"]):
            with self.subTest(arguments=arguments):
                reader, writer = os.pipe()
                os.close(reader)
                result = self.cairn(*arguments, stdout=writer)
                os.close(writer)
                self.assertIn(result.returncode, (141, -13), described(result))
                self.assertEqual(result.stderr, b"")

    def test_a_full_stdout_is_an_error(self):
        for arguments in (["ls", self.source], ["ls", "--json", self.source], ["version"], ["verify", "--metadata-only", self.source],
                          ["consolidate", "--json", self.source, self.folder / "o.pth"]):
            with self.subTest(arguments=arguments), open("/dev/full", "wb") as full:
                result = self.cairn(*arguments, stdout=full)
                self.assertEqual(result.returncode, 1, described(result))
                self.assertRegex(result.stderr, rb"(?i)stdout|standard output|space")


if __name__ == "__main__":
    unittest.main()
