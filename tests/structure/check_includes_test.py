# SPDX-License-Identifier: BSD-3-Clause
"""check_includes.py finds each kind of bad include, and nothing in a good tree."""

import pathlib
import tempfile
import unittest

import check_includes

GOOD = {
    "include/cairn/box.hpp": "// Row: tensor. Boxes.\n#include <vector>\n",
    "include/cairn/mpi.hpp": '// Row: mpi. Ranks.\n#include <mpi.h>\n#include "cairn/box.hpp"\n',
    "src/base/text.hpp": "#include <string>\n",
    "src/zip/zip.hpp": '#include "base/text.hpp"\n#include "cairn/box.hpp"\n',
    "src/pickle/value.hpp": '#include "cairn/box.hpp"\n',
    "src/formats/dcp.cpp": '#include "zip/zip.hpp"\n#include "pickle/value.hpp"\n#include <nlohmann/json.hpp>\n',
    "src/formats/hdf5_sink.cpp": "#include <hdf5.h>\n",
    "src/mpi/ranks.cpp": "#include <mpi.h>\n",
    "apps/ls.hpp": "",
    "apps/main.cpp": '#include "ls.hpp"\n#include "formats/none.hpp"\n#include <boost/program_options.hpp>\n',
    "src/formats/none.hpp": "",
}


class CheckIncludes(unittest.TestCase):
    def faults_with(self, changes):
        with tempfile.TemporaryDirectory() as root:
            for name, text in {**GOOD, **changes}.items():
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return check_includes.faults(root)

    def assert_one(self, changes, expected):
        found = self.faults_with(changes)
        self.assertEqual(len(found), 1, found)
        self.assertIn(expected, found[0])

    def test_a_good_tree_passes(self):
        self.assertEqual(self.faults_with({}), [])

    def test_an_empty_tree_fails(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(len(check_includes.faults(root)), 1)

    def test_upwards(self):
        self.assert_one({"src/base/text.hpp": '\n#include "zip/zip.hpp"\n'}, "src/base/text.hpp:2: includes zip/zip.hpp")

    def test_upwards_in_angle_brackets(self):
        self.assert_one({"src/base/text.hpp": "#include <zip/zip.hpp>"}, "upwards")

    def test_upwards_with_odd_spacing(self):
        self.assert_one({"src/base/text.hpp": '  #  include"zip/zip.hpp"'}, "upwards")

    def test_upwards_through_a_public_header(self):
        self.assert_one({"src/base/text.hpp": '#include "cairn/box.hpp"'}, "base lies below tensor")

    def test_sideways(self):
        self.assert_one({"src/pickle/value.hpp": '#include "zip/zip.hpp"'}, "sideways")

    def test_an_app_from_a_library(self):
        self.assert_one({"src/mpi/ranks.cpp": '#include "ls.hpp"'}, "no file of the project")

    def test_a_public_header_and_a_private_one(self):
        self.assert_one({"include/cairn/box.hpp": '// Row: tensor. X\n#include "base/text.hpp"'}, "public headers only")

    def test_a_public_header_without_its_row(self):
        self.assert_one({"include/cairn/box.hpp": "// Boxes.\n"}, "Row:")

    def test_a_folder_without_a_row(self):
        self.assert_one({"src/tools/x.cpp": ""}, "src/tools/x.cpp: needs")

    def test_third_party_headers_behind_their_fences(self):
        for header in ("mpi.h", "boost/program_options.hpp", "hdf5.h", "H5Cpp.h", "torch/torch.h", "ATen/ATen.h"):
            self.assert_one({"src/formats/dcp.cpp": f"#include <{header}>"}, "third-party")
        self.assert_one({"src/engine/x.cpp": "#include <nlohmann/json.hpp>"}, "third-party")


if __name__ == "__main__":
    unittest.main()
