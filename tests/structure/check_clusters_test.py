# SPDX-License-Identifier: BSD-3-Clause
"""check_clusters.py finds what it is there for."""
import pathlib
import unittest

import check_clusters as clusters

ROOT = pathlib.Path(__file__).resolve().parents[2]


def read(name):
    return (ROOT / "launch" / name).read_text(encoding="utf-8")


class CheckClusters(unittest.TestCase):
    def assert_each_found(self, faults_of, text, changes):
        self.assertEqual(faults_of(text), [])
        for old, new in changes:
            with self.subTest(new=new):
                self.assertIn(old, text)
                self.assertNotEqual(faults_of(text.replace(old, new)), [])

    def test_slurm_directives(self):
        self.assert_each_found(clusters.sbatch_faults, read("slurm.sbatch"), [
            ("USR1@120", "USR1:120"), ("--mem=8G", "--memory=8G"), ("--nodes=2", "--nodes=two"), ("#SBATCH", "# SBATCH"),
            ("--requeue", "--requeue=yes"), ("step=\n", "step=\n#SBATCH --nodes=3\n")])

    @unittest.skipUnless(clusters.yaml, "no YAML parser")
    def test_job(self):
        self.assert_each_found(clusters.yaml_faults, read("kubernetes/mpijob.yaml"), [
            ("$(SRC)", "$(SOURCE)"), ("ReadWriteMany", "ReadWriteOnce"), ("runAsUser: 1000", "runAsUser: 0"),
            ("claimName: cairn-data", "claimName: data"), ('THREADS: "8"', "THREADS: 8"), ("kind: MPIJob", "kind: Job"),
            ("image: *image", "image: other"), ("      replicas: 4", "\treplicas: 4")])

    def test_job_without_a_parser(self):
        parser, clusters.yaml = clusters.yaml, None
        self.addCleanup(setattr, clusters, "yaml", parser)
        self.assert_each_found(clusters.yaml_faults, read("kubernetes/mpijob.yaml"), [
            ("      replicas: 4", "\treplicas: 4"), ("kind: MPIJob", "kinds: MPIJob"), ("mpiReplicaSpecs:", "mpiReplicaSpecs")])

    def test_definition(self):
        self.assert_each_found(lambda text: clusters.definition_faults(text, ROOT), read("apptainer.def"), [
            ("files from build", "files from builder"), ("    apps /src", "    app /src"), ("%post\n", "%pst\n"),
            ('"{{ pip_args }}"', '"{{ pip_args }}'), ("Stage: final\n", ""), ("Stage: build\n", "Stage: build\nstray\n")])

    def test_containerfile(self):
        self.assert_each_found(lambda text: clusters.containerfile_faults(text, ROOT), read("kubernetes/Containerfile"),
                               [("COPY src", "COPY source")])

    def test_scripts(self):
        self.assertEqual(clusters.script_faults(ROOT), [])
        self.assertNotEqual(clusters.shell_faults("if true", "x"), [])


if __name__ == "__main__":
    unittest.main()
