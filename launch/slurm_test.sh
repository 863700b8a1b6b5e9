#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# launch/slurm_test.sh   runs launch/slurm.sbatch on a Slurm of one node, made for it in a temporary folder
#
# CAIRN_PROGRAM   the program under test (default: build/release/cairn)
# Exit status 0 fine, 1 failed, 77 not possible here (the reason is on standard error).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. launch/cluster/common.sh

# Daemons detach what they start. In a process namespace, where that is permitted, all of it ends with this script.
if [[ -z ${CAIRN_SLURM_INSIDE:-} ]]; then
  export CAIRN_SLURM_INSIDE=1
  for namespace in "unshare" "unshare --user --map-current-user"; do
    if $namespace --pid --fork --mount-proc true 2>/dev/null; then
      exec setpriv --pdeathsig KILL $namespace --pid --fork --kill-child --mount-proc "$BASH" launch/slurm_test.sh
    fi
  done
fi

cairn=$(realpath "${CAIRN_PROGRAM:-build/release/cairn}")
[[ -x $cairn ]] || skip "no program $cairn"
"$cairn" version | grep -q MPI || skip "$cairn is built without MPI"
need python3 setpriv flock
id -un >/dev/null 2>&1 || skip "user $EUID has no name, and Slurm wants one"
borrow slurm slurmctld slurmd slurm-client munge
plugins=$(echo "$PWD"/build/cluster/slurm/usr/lib/*/slurm-wlm)
[[ -d $plugins ]] || skip "the packages have no folder slurm-wlm: not Debian's Slurm"
export LD_LIBRARY_PATH=$plugins:$LD_LIBRARY_PATH

work=$(mktemp -d "${TMPDIR:-/tmp}/cairn-slurm-XXXXXX")
export SLURM_CONF=$work/slurm.conf

clean_up() {
  local status=$?
  trap - EXIT
  if [[ -S $work/munge.socket ]]; then
    scancel --quiet --full --user="$(id -u)" || true
    for _ in {1..40}; do [[ -n $(squeue --noheader 2>/dev/null) ]] || break; sleep 0.25; done
  fi
  if [[ $status -ne 0 && $status -ne 77 ]]; then tail -n 15 "$work"/*.log >&2 || true; fi
  kill -TERM $(jobs -p) 2>/dev/null || true
  wait
  rm -rf "$work"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 143' INT TERM HUP

# daemon NAME COMMAND…: in the foreground of a background job, and gone when this script is killed.
daemon() {
  setpriv --pdeathsig KILL "${@:2}" >"$work/$1.log" 2>&1 </dev/null &
}

# until_true SECONDS COMMAND…
until_true() {
  local tries=$(($1 * 4))
  while ! "${@:2}" >/dev/null 2>&1; do
    ((tries-- > 0)) || return 1
    sleep 0.25
  done
}

free_ports() {
  python3 - "$1" <<'PYTHON'
import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in sockets: one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in sockets))
PYTHON
}

# CPUs is more than the machine has, so that 4 tasks of 2 cores fit; hence config_overrides, and no binding.
write_configuration() {
  local host ports
  host=$(uname -n)
  read -ra ports <<<"$(free_ports 2)"
  mkdir -p "$work/state" "$work/spool"
  cat >"$work/slurm.conf" <<CONF
ClusterName=cairn
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
SlurmctldPort=${ports[0]}
SlurmdPort=${ports[1]}
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket,cred_expire=5
CredType=cred/munge
PluginDir=$plugins
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=3
PlugStackConfig=$work/plugstack.conf
NodeName=$host NodeAddr=127.0.0.1 CPUs=16 RealMemory=16000 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
  : >"$work/plugstack.conf"
  : >"$work/cgroup.conf"
}

start_munge() {
  head -c 1024 /dev/urandom >"$work/munge.key"
  chmod 400 "$work/munge.key"
  daemon munged munged --foreground --force --socket "$work/munge.socket" --key-file "$work/munge.key" \
    --pid-file "$work/munged.pid" --seed-file "$work/munged.seed" --log-file "$work/munged-own.log"
  until_true 10 test -S "$work/munge.socket" || skip "munged does not start: $(tail -n 1 "$work"/munged*.log)"
}

node_is_idle() { [[ $(sinfo --noheader --format=%T) == idle ]]; }

start_slurm() {
  local stepd
  stepd=$(command -v slurmstepd-wlm || command -v slurmstepd)
  daemon slurmctld "$(command -v slurmctld-wlm || command -v slurmctld)" -D -c
  daemon slurmd "$(command -v slurmd-wlm || command -v slurmd)" -D -d "$stepd"
  until_true 30 node_is_idle || stop "the node is not idle: $(sinfo --noheader --format='%T %E')"
}

# job NAME TASKS [VARIABLE=VALUE…]: runs slurm.sbatch to its end and returns the job's status.
# Its result is in the folder $work/NAME, its log beside that.
job() {
  local name=$1 tasks=$2
  mkdir -p "$work/$name"
  setpriv --pdeathsig TERM timeout 240 \
    env CAIRN="$cairn" CAIRN_OPTIONS="$resume --json" SRC="$work/checkpoint" DST="$work/$name/model.pth" "${@:3}" \
    sbatch --wait --quiet --chdir="$work" --output="$work/$name.log" --nodes=1 --ntasks-per-node="$tasks" --cpus-per-task=2 \
    --mem=1G launch/slurm.sbatch
}

# expect_whole NAME TASKS: the job's result is the bytes of the solo run, by so many ranks, and nothing else is there.
expect_whole() {
  grep -q "\"ranks\": $2," "$work/$1.log" || stop "$1: not $2 ranks"
  [[ $(ls -A "$work/$1") == model.pth ]] || stop "$1: leaves $(ls -A "$work/$1")"
  expect_same "$work/$1/model.pth" "$work/solo/model.pth" "$1"
}

expect_nothing() {
  [[ -z $(ls -A "$work/$1") ]] || stop "$1: leaves $(ls -A "$work/$1")"
  echo "ok: $1"
}

# A program that hangs when the job runs first, and is cairn (as it is today, with or without --resume) when it runs again.
write_hanging_program() {
  cat >"$work/hanging" <<PROGRAM
#!/bin/bash
if [[ \${SLURM_RESTART_COUNT:-0} -eq 0 ]]; then touch "$work/hangs"; exec sleep 1000; fi
for word; do [[ \$word == --resume && -z "$resume" ]] || words+=("\$word"); done
exec "$cairn" "\${words[@]}"
PROGRAM
  chmod +x "$work/hanging"
}

resume=
if "$cairn" consolidate --help | grep -q -- --resume; then resume=--resume; fi
# As root, mpirun wants to be told.
if [[ $EUID -eq 0 ]]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi

python3 -B launch/cluster/make_checkpoint.py "$work/checkpoint"
"$cairn" consolidate --no-mpi "$work/checkpoint" "$work/solo/model.pth"
write_configuration
start_munge
start_slurm

for tasks in 2 4; do
  job mpirun-$tasks $tasks LAUNCHER=mpirun || stop "mpirun-$tasks"
  expect_whole mpirun-$tasks $tasks
  if [[ $(srun --mpi=list 2>&1) == *pmix* ]]; then
    job srun-$tasks $tasks || stop "srun-$tasks"
    expect_whole srun-$tasks $tasks
  else
    echo "left out: srun-$tasks, this Slurm has no PMIx"
  fi
done

# Tasks that find no PMI fail: none of them runs solo.
if job without-pmi 2 MPI_TYPE=none; then stop "without-pmi: ends well"; fi
expect_nothing without-pmi

# The job's status is cairn's.
cp -r "$work/checkpoint" "$work/damaged-source"
: >"$work/damaged-source/__2_0.distcp"
status=0
job damaged 2 LAUNCHER=mpirun SRC="$work/damaged-source" || status=$?
[[ $status -eq 1 ]] || stop "damaged: status $status"
expect_nothing damaged

# A job at its time limit is begun again and ends well.
write_hanging_program
job requeued 2 LAUNCHER=mpirun CAIRN="$work/hanging" CAIRN_OPTIONS="--resume --json" &
waiting=$!
until_true 60 test -e "$work/hangs" || stop "requeued: does not start"
scancel --batch --signal=USR1 --name=cairn
wait "$waiting" || stop "requeued: status $?"
grep -q 'restart 1' "$work/requeued.log" || stop "requeued: was not"
expect_whole requeued 2
