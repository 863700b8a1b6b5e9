#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# launch/slurm_test.sh [one|two]   runs launch/slurm.sbatch on a Slurm made for it in a temporary folder
#
# one (the default): one node, this machine. two: two nodes, made of namespaces; needs root.
# CAIRN_PROGRAM   the program under test (default: build/release/cairn)
# Exit status 0 fine, 1 failed, 77 not possible here (the reason is on standard error).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. launch/cluster/common.sh
. launch/cluster/hosts.sh

# Daemons detach what they start. In a process namespace, where that is permitted, all of it ends with this script.
# unshare itself ignores SIGTERM: it is passed to the script inside.
inside_namespace() {
  local outer status=0
  setpriv --pdeathsig KILL "$@" "$BASH" launch/slurm_test.sh "${arguments[@]}" &
  outer=$!
  trap 'pkill -TERM --parent "$outer" || true' INT TERM HUP
  while kill -0 "$outer" 2>/dev/null; do
    status=0
    wait "$outer" || status=$?
  done
  exit "$status"
}

need python3 setpriv unshare flock pgrep
arguments=("$@")
if [[ -z ${CAIRN_SLURM_INSIDE:-} ]]; then
  export CAIRN_SLURM_INSIDE=1
  for user in "" "--user --map-current-user"; do
    namespace=(unshare $user --pid --fork --kill-child --mount-proc)
    if "${namespace[@]}" true 2>/dev/null; then inside_namespace "${namespace[@]}"; fi
  done
fi

cairn=$(realpath -m "${CAIRN_PROGRAM:-build/release/cairn}")
[[ -x $cairn ]] || skip "no program $cairn"
"$cairn" version | grep -q MPI || skip "$cairn is built without MPI"
id -un >/dev/null 2>&1 || skip "user $EUID has no name, and Slurm wants one"
borrow slurm slurmctld slurmd slurm-client munge
plugins=$(echo "$PWD"/build/cluster/slurm/usr/lib/*/slurm-wlm)
[[ -d $plugins ]] || skip "the packages have no folder slurm-wlm: not Debian's Slurm"
export LD_LIBRARY_PATH=$plugins:$LD_LIBRARY_PATH


case ${1:-one} in
  one) nodes=("$(uname -n)") ;;
  two)
    need_for_hosts
    nodes=(left right)
    ;;
  *) stop "one or two nodes" ;;
esac

work=$(mktemp -d "${TMPDIR:-/tmp}/cairn-slurm-XXXXXX")
chmod 755 "$work"
export SLURM_CONF=$work/slurm.conf

# at NODE COMMAND…
at() {
  if [[ ${#nodes[@]} -eq 1 ]]; then "${@:2}"; else on "$1" env SLURM_CONF="$SLURM_CONF" "${@:2}"; fi
}

clean_up() {
  local status=$?
  trap - EXIT
  if [[ -e $work/ready ]]; then
    at "${nodes[0]}" scancel --quiet --full --user="$(id -u)" || true
    for _ in {1..40}; do [[ -n $(at "${nodes[0]}" squeue --noheader 2>/dev/null) ]] || break; sleep 0.25; done
  fi
  if [[ $status -eq 1 ]]; then tail -n 15 "$work"/*.log >&2 || true; fi
  kill -TERM $(jobs -p) 2>/dev/null || true
  stop_hosts
  rm -rf "$work"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 143' INT TERM HUP

# daemon NAME NODE COMMAND…: in the foreground of a background job, and gone when this script is killed.
daemon() {
  local command=("${@:3}")
  if [[ ${#nodes[@]} -eq 1 ]]; then command=(setpriv --pdeathsig KILL "${command[@]}"); fi
  at "$2" "${command[@]}" >"$work/$1-$2.log" 2>&1 </dev/null &
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

address_of() { if [[ ${#nodes[@]} -eq 1 ]]; then echo 127.0.0.1; else awk -v name="$1" '$2 == name {print $1}' "$work/etc/hosts"; fi; }

# CPUs is more than the machine has, so that 4 tasks of 2 cores fit; hence config_overrides, and no binding.
# $work/local is each node's own disk. TmpFS: nodes that share /tmp would disturb each other's PMIx.
write_configuration() {
  local node ports
  read -ra ports <<<"$(free_ports 2)"
  mkdir -p "$work/state" "$work/local/tmp"
  cat >"$work/slurm.conf" <<CONF
ClusterName=cairn
SlurmctldHost=${nodes[0]}($(address_of "${nodes[0]}"))
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
SlurmctldPort=${ports[0]}
SlurmdPort=${ports[1]}
AuthType=auth/munge
AuthInfo=socket=$work/local/munge.socket,cred_expire=5
CredType=cred/munge
PluginDir=$plugins
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/local/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/local/slurmd.pid
TmpFS=$work/local/tmp
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
CONF
  for node in "${nodes[@]}"; do
    echo "NodeName=$node NodeAddr=$(address_of "$node") CPUs=16 RealMemory=16000 State=UNKNOWN" >>"$work/slurm.conf"
  done
  echo "PartitionName=all Nodes=$(IFS=,; echo "${nodes[*]}") Default=YES MaxTime=INFINITE State=UP" >>"$work/slurm.conf"
  : >"$work/plugstack.conf"
  : >"$work/cgroup.conf"
}

start_munge() {
  local node here=$work/local
  head -c 1024 /dev/urandom >"$work/munge.key"
  chmod 400 "$work/munge.key"
  for node in "${nodes[@]}"; do
    daemon munged "$node" munged --foreground --force --socket "$here/munge.socket" --key-file "$work/munge.key" \
      --pid-file "$here/munged.pid" --seed-file "$here/munged.seed" --log-file "$here/munged.log"
    until_true 10 at "$node" test -S "$here/munge.socket" || skip "munged does not start: $(tail -n 1 "$work"/munged-*.log)"
  done
}

nodes_are_idle() { [[ $(at "${nodes[0]}" sinfo --noheader --format='%D %T') == "${#nodes[@]} idle" ]]; }

start_slurm() {
  local stepd node
  stepd=$(command -v slurmstepd-wlm || command -v slurmstepd)
  daemon slurmctld "${nodes[0]}" "$(command -v slurmctld-wlm || command -v slurmctld)" -D -c
  for node in "${nodes[@]}"; do
    daemon slurmd "$node" "$(command -v slurmd-wlm || command -v slurmd)" -D -d "$stepd"
  done
  until_true 30 nodes_are_idle || stop "not all nodes are idle: $(at "${nodes[0]}" sinfo --noheader --format='%T %E')"
  touch "$work/ready"
}

# job NAME TASKS [VARIABLE=VALUE…]: runs slurm.sbatch to its end and returns the job's status.
# Its result is in the folder $work/NAME, its log beside that.
job() {
  local name=$1 tasks=$2
  mkdir -p "$work/$name"
  at "${nodes[0]}" setpriv --pdeathsig TERM timeout 240 \
    env CAIRN="$cairn" CAIRN_OPTIONS="$resume --json" SRC="$work/checkpoint" DST="$work/$name/model.pth" "${root[@]}" "${@:3}" \
    sbatch --wait --quiet --chdir="$work" --output="$work/$name.log" --nodes="${#nodes[@]}" \
    --ntasks-per-node="$((tasks / ${#nodes[@]}))" --cpus-per-task=2 --mem=1G "$PWD/launch/slurm.sbatch"
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
root=()
if [[ $EUID -eq 0 ]]; then root=(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1); fi

python3 -B launch/cluster/make_checkpoint.py "$work/checkpoint"
"$cairn" consolidate --no-mpi "$work/checkpoint" "$work/solo/model.pth"
if [[ ${#nodes[@]} -gt 1 ]]; then start_hosts "${nodes[@]}"; fi
write_configuration
start_munge
start_slurm

for tasks in 2 4; do
  job mpirun-$tasks $tasks LAUNCHER=mpirun || stop "mpirun-$tasks"
  expect_whole mpirun-$tasks $tasks
  if [[ $(at "${nodes[0]}" srun --mpi=list 2>&1) == *pmix* ]]; then
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
at "${nodes[0]}" scancel --batch --signal=USR1 --name=cairn
wait "$waiting" || stop "requeued: status $?"
grep -q 'restart 1' "$work/requeued.log" || stop "requeued: was not"
expect_whole requeued 2
