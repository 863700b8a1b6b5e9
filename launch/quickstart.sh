#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# launch/quickstart.sh   set-up, release build, then the main job on a checkpoint that PyTorch just wrote
#
# torch saves a sharded model on 4 ranks, 4 MPI ranks of cairn make one file of it, PyTorch's own converter makes
# another, and the two are compared bit by bit. Everything lies in build/quickstart. Then launch/elastic_demo.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. launch/build.sh

python=build/venv/bin/python
work=build/quickstart
cairn=build/release/cairn

# step COMMAND…: shows the command, then runs it.
step() {
  printf '\n$ %s\n' "$*"
  "$@"
}

launch/setup.sh
build release cairn
mkdir -p "$work"

step launch/env.sh $python launch/quickstart/save_model.py $work/checkpoint 4
step $cairn ls $work/checkpoint 'model.*'

consolidate=(launch/env.sh mpirun -n 4 $cairn consolidate $work/checkpoint $work/model.pth --overwrite)
printf '\n$ %s\n' "${consolidate[*]}"
$python launch/quickstart/measure.py $work/cairn.json "cairn consolidate, 4 MPI ranks" $work/model.pth \
  "${consolidate[@]}" --json

printf '\n$ dcp_to_torch_save %s %s\n' $work/checkpoint $work/torch.pth
$python launch/quickstart/measure.py $work/torch.json "torch dcp_to_torch_save" $work/torch.pth \
  $python launch/quickstart/torch_convert.py $work/checkpoint $work/torch.pth

printf '\n'
$python launch/quickstart/compare.py $work/cairn.json $work/torch.json

printf '\n# A training job, killed and resumed on another number of ranks: launch/elastic_demo.sh\n'
launch/elastic_demo.sh
