#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# launch/gpu_check.sh            builds and runs the checks of GPUs and NCCL on this machine: a line for each check
# launch/gpu_check.sh --played   the same on devices that are played: what the checks themselves are worth
# launch/gpu_check.sh --headers DIR…   needs no GPU: the calls that Cairn declares for itself, compiled against the
#                                headers of CUDA and NCCL in these folders; silent when they agree
#
# Status 0: all checks passed; 1: one failed, or five minutes were not enough; 77: no CUDA runtime, driver or GPU,
# so nothing was checked. One rank for each GPU, 4 at most; on a single GPU 2 ranks where NCCL is 2.30 or later,
# else 1. CAIRN_CUDART and CAIRN_NCCL name the files of the libraries; by default those of the wheels in build/venv
# (of CUDA's torch, or nvidia-cuda-runtime and nvidia-nccl-cu13), else what the dynamic loader finds.
# CAIRN_GPU_CHECK names a program that is built already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. launch/build.sh

readonly unsupported=77 limit_s=280 least_shared_nccl=23000

mode=${1:-}
if [[ $mode == --headers && $# -gt 1 ]]; then
  shift
  exec "${CXX:-c++}" -std=c++20 -fsyntax-only -Iinclude -Isrc "${@/#/-isystem}" tests/device/vendor_headers.cpp
fi
if [[ $# -gt 1 || ( -n $mode && $mode != --played ) ]]; then
  echo "usage: launch/gpu_check.sh [--played | --headers DIR…]" >&2
  exit 2
fi

# from_wheels VARIABLE PATTERN: the newest file of the virtual environment that matches.
from_wheels() {
  if [[ -n ${!1:-} ]]; then return; fi
  local found
  found=$(find -L build/venv/lib/python3*/site-packages/nvidia -name "$2" 2>/dev/null | sort -V | tail -n 1) || true
  if [[ -n $found ]]; then export "$1=$PWD/$found"; fi
}
from_wheels CAIRN_CUDART 'libcudart.so.*'
from_wheels CAIRN_NCCL 'libnccl.so.2'

program=${CAIRN_GPU_CHECK:-build/release/mpi_tests/gpu_check}
if [[ -z ${CAIRN_GPU_CHECK:-} ]]; then build release gpu_check -DCAIRN_WITH_MPI=ON; fi

ranks=2
if [[ -z $mode ]]; then
  status=0
  about=$("$program" --about) || status=$?
  if [[ $status -ne 0 ]]; then
    echo "gpu_check: nothing was checked: there is no GPU that CUDA can use here (status $status)"
    exit "$status"
  fi
  read -r _ devices _ nccl <<<"$about"
  echo "GPUs: $devices, NCCL: $nccl"
  ranks=$((devices > 4 ? 4 : devices))
  if [[ $devices -eq 1 && $nccl -ge $least_shared_nccl ]]; then
    ranks=2
    export NCCL_MULTI_RANK_GPU_ENABLE=1
  fi
fi

status=0
timeout --kill-after=10 "$limit_s" launch/env.sh mpirun -n "$ranks" "$program" $mode || status=$?
case $status in
  0) echo "gpu_check: all checks passed on $ranks ranks" ;;
  "$unsupported") echo "gpu_check: nothing was checked: see above" ;;
  *)
    if [[ $status -eq 124 || $status -eq 137 ]]; then echo "FAIL  not done after $limit_s s"; fi
    echo "gpu_check: failed (status $status)"
    status=1
    ;;
esac
exit "$status"
