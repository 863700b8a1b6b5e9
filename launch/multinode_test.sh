#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# launch/multinode_test.sh [MODE…]   consolidates on two hosts, made of namespaces, by mpirun over ssh
#
# First from a directory that both see, then with every shard on the disk of the host that wrote it, once for each MODE
# of --write (default: gather auto; left out where cairn has no such option).
#
# CAIRN_PROGRAM   the program under test (default: build/release/cairn)
# Exit status 0 fine, 1 failed, 77 not possible here (the reason is on standard error).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. launch/cluster/common.sh
. launch/cluster/hosts.sh

modes=("$@")
if [[ ${#modes[@]} -eq 0 ]]; then modes=(gather auto); fi
cairn=$(realpath -m "${CAIRN_PROGRAM:-build/release/cairn}")
[[ -x $cairn ]] || skip "no program $cairn"
"$cairn" version | grep -q MPI || skip "$cairn is built without MPI"
need python3 mpirun
need_for_hosts

work=$(mktemp -d "${TMPDIR:-/tmp}/cairn-hosts-XXXXXX")
chmod 755 "$work"

clean_up() {
  local status=$?
  trap - EXIT
  stop_hosts
  rm -rf "$work"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 143' INT TERM HUP

# on_ranks N COMMAND…: from host left, ranks filling its two slots first. Open MPI's own traffic takes the cable.
on_ranks() {
  local ranks=$1
  shift
  on left timeout 120 mpirun --allow-run-as-root --hostfile "$work/hostfile" -n "$ranks" --bind-to none \
    --mca plm_rsh_agent "$(command -v ssh) -F $work/ssh/client" --mca pml ob1 --mca btl tcp,self,vader \
    --mca btl_tcp_if_include cable --mca oob_tcp_if_include cable --mca mpi_yield_when_idle 1 \
    --mca btl_vader_single_copy_mechanism none -x PMIX_MCA_gds=hash "$@"
}

# consolidate RANKS SRC DST [OPTION…]
consolidate() { on_ranks "$1" "$cairn" consolidate --json "${@:2}" >"$work/log" 2>&1; }

# expect_whole HOST DST RANKS WHAT: there it is, whole, and alone in its folder.
expect_whole() {
  grep -q "\"ranks\": $3," "$work/log" || stop "$4: not $3 ranks: $(cat "$work/log")"
  [[ $(on "$1" ls -A "$(dirname "$2")") == model.pth ]] || stop "$4: leaves $(on "$1" ls -A "$(dirname "$2")")"
  expect_same "$(seen_from "$1" "$2")" "$work/solo/model.pth" "$4"
}

start_hosts left right
printf '%s slots=2\n' left right >"$work/hostfile"
[[ $(on_ranks 4 hostname | sort | xargs) == "left left right right" ]] || stop "4 ranks are not on 2 hosts"
echo "ok: 4 ranks on 2 hosts"

python3 -B launch/cluster/make_checkpoint.py "$work/checkpoint"
"$cairn" consolidate --no-mpi "$work/checkpoint" "$work/solo/model.pth"

for ranks in 3 4; do
  out=$work/shared-$ranks/model.pth
  consolidate $ranks "$work/checkpoint" "$out" || stop "shared, $ranks ranks: $(cat "$work/log")"
  expect_whole left "$out" $ranks "shared directory, $ranks ranks"
done

if ! "$cairn" consolidate --help | grep -q -- --write; then
  echo "left out: node-local disks (${modes[*]}), this cairn has no --write" >&2
  exit 0
fi

# place HOST FILE…: puts these, and no others, into the host's own folder of the checkpoint.
local_source=$work/local/checkpoint
place() {
  on "$1" rm -rf "$local_source" "$work/local/out"
  on "$1" mkdir -p "$local_source"
  on "$1" cp "${@:2}" "$local_source"
}
shards() { printf "$work/checkpoint/__%s_0.distcp\n" "$@"; }

for mode in "${modes[@]}"; do
  for holder in left right; do
    what="node-local disks, --write $mode, .metadata on $holder"
    place left $(shards 0 1)
    place right $(shards 2 3)
    on $holder cp "$work/checkpoint/.metadata" "$local_source"
    consolidate 4 "$local_source" "$work/local/out/model.pth" --write "$mode" || stop "$what: $(cat "$work/log")"
    expect_whole left "$work/local/out/model.pth" 4 "$what"
    on right test ! -e "$work/local/out/model.pth" || stop "$what: a file on the other host too"
  done

  what="node-local disks, --write $mode, a shard on no host"
  place left $(shards 0) "$work/checkpoint/.metadata"
  place right $(shards 2 3)
  if consolidate 4 "$local_source" "$work/local/out/model.pth" --write "$mode" --visibility-timeout 1; then stop "$what: ends well"; fi
  grep -q __1_0.distcp "$work/log" || stop "$what: does not name it: $(cat "$work/log")"
  [[ -z $(on left ls -A "$work/local/out" 2>/dev/null) ]] || stop "$what: leaves $(on left ls -A "$work/local/out")"
  echo "ok: $what"
done
