# SPDX-License-Identifier: BSD-3-Clause
"""launch/gpu_check.sh without a GPU: the checks on played devices, what it says of a failure, and of no driver.

CAIRN_GPU_CHECK is the program.
"""
import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
CHECKS = 8


def run(*words, **variables):
    environment = {**os.environ, **variables}
    return subprocess.run([ROOT / "launch/gpu_check.sh", *words], env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=110, check=False)


class GpuCheck(unittest.TestCase):
    def lines(self, result, word):
        return [line for line in result.stdout.splitlines() if line.startswith(word)]

    def test_each_check_is_a_line(self):
        result = run("--played")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(len(self.lines(result, "ok    ")), CHECKS, result.stdout)
        self.assertEqual(self.lines(result, "FAIL"), [])
        self.assertIn("all checks passed on 2 ranks", result.stdout)

    def test_a_failure_is_told_with_rank_and_call(self):
        result = run("--played", CAIRN_GPU_CHECK_FAIL="20")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        failed = self.lines(result, "FAIL")
        self.assertEqual(len(failed), 1, result.stdout)
        self.assertIn("cudaMemcpyAsync failed on CUDA device 0", failed[0])
        self.assertIn("rank 0", failed[0])

    def test_without_the_runtime_nothing_is_checked(self):
        result = run(CAIRN_CUDART="libcairn-no-cudart.so")
        self.assertEqual(result.returncode, 77, result.stdout + result.stderr)
        self.assertIn("libcairn-no-cudart.so", result.stderr)
        self.assertIn("nothing was checked", result.stdout)
        self.assertEqual(self.lines(result, "ok"), [])

    def test_other_words_are_a_wrong_use(self):
        self.assertEqual(run("--real").returncode, 2)


if __name__ == "__main__":
    unittest.main()
