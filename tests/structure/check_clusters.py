# SPDX-License-Identifier: BSD-3-Clause
"""check_clusters.py ROOT: what starts Cairn on clusters is well formed, as far as that shows without a cluster."""

import pathlib
import re
import subprocess
import sys

try:
    import yaml
except ImportError:
    yaml = None

VALUES = {
    "job-name": r"[\w-]+", "output": r"\S+", "open-mode": r"append|truncate", "nodes": r"\d+(-\d+)?",
    "ntasks-per-node": r"\d+", "cpus-per-task": r"\d+", "mem": r"\d+[KMGT]?", "time": r"(\d+-)?\d+:\d\d:\d\d",
    "signal": r"[BR]{0,2}:?[A-Z0-9]+@\d+", "requeue": None,
}
SECTIONS = {"arguments", "files", "post", "environment", "runscript", "startscript", "test", "labels", "help"}
SHELL_SECTIONS = {"post", "environment", "runscript", "startscript", "test"}


def shell_faults(text, name, shell="bash"):
    result = subprocess.run([shell, "-n"], input=text.encode(), capture_output=True)
    return [f"{name}: {line}" for line in result.stderr.decode().splitlines()] if result.returncode else []


def script_faults(root):
    scripts = sorted([*root.glob("launch/**/*.sh"), *root.glob("launch/**/*.sbatch")])
    return [fault for path in scripts for fault in shell_faults(path.read_text(), path)] or ([] if scripts else ["no scripts"])


def sbatch_faults(text):
    """Slurm reads the directives up to the first command, and takes what it does not know as an error at submission."""
    faults, seen, commands = [], set(), False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("#SBATCH"):
            commands |= bool(line.strip()) and not line.startswith("#")
            continue
        match = re.fullmatch(r"#SBATCH --([\w-]+)(?:=(\S+))?", line)
        name, value = match.groups() if match else (None, None)
        if commands:
            faults.append(f"line {number}: a directive behind the first command")
        if name not in VALUES or name in seen:
            faults.append(f"line {number}: unknown, repeated or ill-formed: {line}")
        elif (VALUES[name] is None) != (value is None) or value is not None and not re.fullmatch(VALUES[name], value):
            faults.append(f"line {number}: a value that Slurm does not take: {line}")
        seen.add(name)
    return faults or ([] if seen else ["no directives"])


def job_faults(config, claim, job):
    spec = job["spec"]["mpiReplicaSpecs"]
    pods = {role: spec[role]["template"]["spec"] for role in ("Launcher", "Worker")}
    launcher, worker = (pods[role]["containers"][0] for role in ("Launcher", "Worker"))
    words = " ".join([*launcher["command"], *launcher["args"]])
    mounts = {mount["name"] for mount in worker["volumeMounts"]}
    claims = [v["persistentVolumeClaim"]["claimName"] for v in pods["Worker"]["volumes"] if "persistentVolumeClaim" in v]
    expected = {
        "kinds": (config["kind"], claim["kind"], job["kind"]) == ("ConfigMap", "PersistentVolumeClaim", "MPIJob"),
        "version": job["apiVersion"] == "kubeflow.org/v2beta1",
        "a claim that all workers may mount": claim["spec"]["accessModes"] == ["ReadWriteMany"],
        "claim's name": claims == [claim["metadata"]["name"]],
        "mounts are the volumes": mounts == {volume["name"] for volume in pods["Worker"]["volumes"]},
        "values come from the ConfigMap": launcher["envFrom"][0]["configMapRef"]["name"] == config["metadata"]["name"],
        "variables are its keys": set(re.findall(r"\$\((\w+)\)", words)) == set(config["data"]),
        "strings in the ConfigMap": all(isinstance(value, str) for value in config["data"].values()),
        "words are strings": all(isinstance(word, str) for word in launcher["command"] + launcher["args"] + worker["command"]),
        "one image": launcher["image"] == worker["image"],
        "an ordinary user": all(p["securityContext"]["runAsNonRoot"] and p["securityContext"]["runAsUser"] for p in pods.values()),
        "no root's variables": "ALLOW_RUN_AS_ROOT" not in str(job),
        "ranks": launcher["command"][0] == "mpirun" and "--mpi" in launcher["args"],
    }
    return [f"not so: {claim}" for claim, holds in expected.items() if not holds]


def yaml_faults(text):
    if yaml:
        try:
            return job_faults(*yaml.safe_load_all(text))
        except (yaml.YAMLError, KeyError, IndexError, TypeError, ValueError) as error:
            return [f"{type(error).__name__}: {error}"]
    faults = []
    for number, line in enumerate(text.splitlines(), 1):
        content = line.lstrip(" ")
        if "\t" in line or (len(line) - len(content)) % 2:
            faults.append(f"line {number}: a tab or an odd indentation")
        if content and not re.match(r"(#|---$|- |(- )?[\w./-]+: ?|\{)", content):
            faults.append(f"line {number}: neither a key nor an item: {line}")
    for document in text.split("\n---\n"):
        for key in ("apiVersion", "kind", "metadata"):
            if len(re.findall(rf"^{key}:", document, re.M)) != 1:
                faults.append(f"a document without one {key}")
    return faults


def sections_of(text):
    """(stage's number, headers of that stage, section or None, stage it copies from, lines): one entry a section."""
    found = []
    stage, headers = 0, {}
    for line in text.splitlines():
        header = re.fullmatch(r"(Bootstrap|From|Stage): (\S+)", line)
        start = re.fullmatch(r"%(\w+)(?: from (\S+))?", line)
        if header and header[1] == "Bootstrap":
            stage, headers = stage + 1, {}
            found.append((stage, headers, None, None, []))
        if header:
            headers[header[1]] = header[2]
        elif start:
            found.append((stage, headers, start[1], start[2], []))
        elif line.strip() and not line.lstrip().startswith("#"):
            if not found:
                found.append((stage, headers, None, None, []))
            found[-1][4].append(line)
    return found


def definition_faults(text, root):
    faults, names = [], []
    for stage, headers, section, source, lines in sections_of(text):
        where = f"stage {stage} %{section}"
        if section is None:
            names.append(headers.get("Stage"))
            faults += [f"{where}: outside of sections: {line}" for line in lines]
            faults += [f"{where}: no {key}" for key in ("Bootstrap", "From", "Stage") if key not in headers]
        elif section not in SECTIONS:
            faults.append(f"{where}: no such section")
        elif source and source not in names[:-1]:
            faults.append(f"{where}: no stage {source} before")
        elif section == "files" and not source:
            faults += [f"{where}: there is no {line.split()[0]}" for line in lines if not (root / line.split()[0]).exists()]
        elif section in SHELL_SECTIONS:
            faults += shell_faults("\n".join(lines), where, "sh")
    return faults or ([] if names else ["no stages"])


def containerfile_faults(text, root):
    sources = [word for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.M) for word in line.split()[:-1]]
    return [f"there is no {source}" for source in sources if not (root / source).exists()] or ([] if sources else ["copies nothing"])


def main(root):
    root = pathlib.Path(root)
    checks = {
        "launch/slurm.sbatch": sbatch_faults,
        "launch/kubernetes/mpijob.yaml": yaml_faults,
        "launch/apptainer.def": lambda text: definition_faults(text, root),
        "launch/kubernetes/Containerfile": lambda text: containerfile_faults(text, root),
    }
    faults = script_faults(root)
    for name, check in checks.items():
        faults += [f"{name}: {fault}" for fault in check((root / name).read_text(encoding="utf-8"))]
    print("\n".join(faults) or f"{len(checks)} files and the scripts" + ("" if yaml else "; the YAML without a parser"))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
