# SPDX-License-Identifier: BSD-3-Clause
"""With and without a launcher."""
import json
import unittest

import tiny_checkpoint
from program import CliTest, clean_environment, described


class Launcher(CliTest):
    def setUp(self):
        super().setUp()
        self.source = tiny_checkpoint.small(self.folder / "source")

    def test_many_processes_without_mpi_never_run_solo(self):
        environment = clean_environment(OMPI_COMM_WORLD_SIZE=2, OMPI_COMM_WORLD_RANK=0)
        self.assert_fails(self.cairn("consolidate", "--no-mpi", self.source, self.folder / "o.pth", environment=environment), 2, "mpi")
        self.assert_json_error(self.cairn("ls", "--json", "--no-mpi", self.source, environment=environment), 2)
        self.assertFalse((self.folder / "o.pth").exists())

    def test_one_process_without_mpi_is_fine(self):
        environment = clean_environment(OMPI_COMM_WORLD_SIZE=1, OMPI_COMM_WORLD_RANK=0)
        self.assert_success(self.cairn("ls", "--no-mpi", self.source, environment=environment))

    def test_slurms_batch_variable_alone_is_no_launcher(self):
        environment = clean_environment(SLURM_PROCID=0)
        self.assert_success(self.cairn("consolidate", self.source, self.folder / "o.pth", environment=environment))

    def test_ranks_write_the_bytes_of_one_process(self):
        self.assert_success(self.cairn("consolidate", self.source, self.folder / "solo" / "m.pth"))
        result = self.assert_success(self.mpirun(3, "consolidate", "--json", self.source, self.folder / "many" / "m.pth"))
        self.assertEqual(json.loads(result.stdout)["ranks"], 3)
        self.assertEqual((self.folder / "many" / "m.pth").read_bytes(), (self.folder / "solo" / "m.pth").read_bytes())
        self.assert_only(self.folder / "many", "m.pth")

    def test_rank_zero_writes_what_the_others_read(self):
        self.assert_success(self.cairn("consolidate", self.source, self.folder / "solo" / "m.pth"))
        result = self.assert_success(self.mpirun(3, "consolidate", "--write", "gather", self.source, self.folder / "many" / "m.pth"))
        self.assertEqual((self.folder / "many" / "m.pth").read_bytes(), (self.folder / "solo" / "m.pth").read_bytes())
        self.assertNotIn(b"gather", result.stderr)

    def test_modes_that_exclude_each_other_are_refused(self):
        for options in (["--write", "nowhere"], ["--write", "gather", "--copy", "kernel"], ["--visibility-timeout", "soon"]):
            result = self.cairn("consolidate", *options, self.source, self.folder / "o.pth")
            self.assertEqual(result.returncode, 2, described(result))

    def test_ranks_print_once(self):
        solo = self.assert_success(self.cairn("ls", self.source))
        self.assertEqual(self.assert_success(self.mpirun(3, "ls", self.source)).stdout, solo.stdout)

    def test_ranks_fail_together_and_say_it_once(self):
        (self.source / "__1_0.distcp").write_bytes(b"")
        result = self.mpirun(3, "consolidate", "--visibility-timeout", "0", self.source, self.folder / "o.pth")
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count(b"__1_0.distcp"), self.count_alone(), described(result))
        self.assertFalse((self.folder / "o.pth").exists())
        self.assert_only(self.folder, "source")

    def count_alone(self):
        return self.cairn("consolidate", self.source, self.folder / "o.pth").stderr.count(b"__1_0.distcp")

    def test_usage_errors_are_2_on_all_ranks(self):
        result = self.mpirun(2, "consolidate", "--frobnicate", self.source)
        self.assertEqual(result.returncode, 2, described(result))
        self.assertEqual(result.stderr.count(b"frobnicate"), 1, described(result))


if __name__ == "__main__":
    unittest.main()
