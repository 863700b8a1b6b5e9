# SPDX-License-Identifier: BSD-3-Clause
"""bench/: the rows that need no torch run on a small checkpoint, their table and the plot are made. No time is asserted."""
import json
import os
import pathlib
import sys
import unittest
import xml.etree.ElementTree as xml

import tiny_checkpoint
from program import MPI_ENV, PROGRAM, CliTest, run

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
SVG = "{http://www.w3.org/2000/svg}"


class Budgets(CliTest):
    def script(self, name, *arguments):
        return run([sys.executable, "-B", BENCH / name, *arguments])

    def budgets(self, *arguments):
        return self.script("budgets.py", *arguments)

    def measure(self, *rows):
        source = tiny_checkpoint.small(self.folder / "source")
        named = [part for row in rows for part in ("--row", row)]
        return self.budgets(*named, "--source", source, "--rounds", "1", "--dir", self.folder / "work", "--cairn", PROGRAM,
                            "--python", sys.executable, "--env", MPI_ENV or os.devnull, "--json", self.folder / "found.json")

    def test_rows_on_a_given_checkpoint_give_a_table_and_json(self):
        result = self.measure("verified", "durable", "verify", "startup", "rss")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = json.loads((self.folder / "found.json").read_text())["rows"]
        self.assertEqual(sorted(rows), ["durable", "rss", "startup", "verified", "verify"])
        self.assertEqual([line["against"] for line in rows["verify"]["lines"]], ["cat to /dev/null", "zipfile.testzip"])
        for line in (line for row in rows.values() for line in row["lines"]):
            self.assertGreater(line["ours"]["peak_rss_bytes"], 0)
            self.assertIn(line["met"], (True, False))
            self.assertIn(f"| {line['row']} ".encode(), result.stdout)
        self.assert_only(self.folder / "work")

    def test_a_second_run_keeps_the_rows_of_the_first_and_the_document_gets_both(self):
        document = self.folder / "page.md"
        document.write_text("before\n<!-- budgets.py: begin -->\nstale\n<!-- budgets.py: end -->\nafter\n")
        found = self.folder / "found.json"
        found.write_text(json.dumps({"workload": "budgets", "rows": {"cold": {
            "rounds": 1, "machine": {"system": "Linux", "kernel": "6", "cores": 2, "memory_gib": 8, "file_system": "ext4", "cairn": "cairn 0"},
            "lines": [{"row": "cold", "work": "kept", "ours": {"seconds": 1, "all_seconds": [1]}, "ratio": 2, "budget": "≤ 1", "met": False}]}}}))
        self.assertEqual(self.measure("startup").returncode, 0)
        self.assert_success(self.budgets("--markdown", found, "--into", document))
        text = document.read_text()
        self.assertRegex(text, r"(?s)^before\n.*\| cold .*\| kept .*\*\*no\*\*.*\| startup .*\nafter\n$")
        self.assertNotIn("stale", text)

    def test_a_command_that_fails_ends_the_run_with_its_words(self):
        result = self.budgets("--row", "startup", "--source", self.folder, "--dir", self.folder / "work", "--cairn", PROGRAM)
        self.assert_fails(result, 1, "failed with 1", "cairn")

    def test_the_plot_is_an_svg_with_both_panels(self):
        data, figure = self.folder / "data.json", self.folder / "figure.svg"
        for sizes in ([1 << 20], [1 << 28, 1 << 30, 1 << 32]):
            points = [{"bytes": size} | {who: {"all_seconds": [size / 1e9, size / 2e9], "peak_rss_bytes": 5 * size} for who in ("torch", "cairn", "cat")}
                      for size in sizes]
            data.write_text(json.dumps({"ranks": 4, "rounds": 2, "machine": {"cores": 2, "file_system": "ext4"}, "points": points}))
            self.assert_success(self.script("plot.py", data, figure))
            root = xml.parse(figure).getroot()
            self.assertEqual(len(root.findall(f"{SVG}polyline")), 5)
            words = [element.text for element in root.iter(f"{SVG}text")]
            self.assertLessEqual({"Time", "seconds", "MiB", "size of the checkpoint, GiB", "Cairn", "PyTorch"}, set(words))


if __name__ == "__main__":
    unittest.main()
