#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# launch/elastic_demo.sh   a training job on 4 ranks, killed while it saves, resumed on 2; its model opened in Python
#
# apps/elastic_training trains a small transformer on generated text and saves in the background. The curve of its loss is
# compared with that of a job on 3 ranks that nobody killed, and drawn. Everything lies in build/elastic.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. launch/build.sh
. launch/env.sh

python=build/venv/bin/python
work=build/elastic
cairn=build/release/cairn
trainer=(build/release/apps/elastic_training/elastic_training --steps 60 --save-every 5)

# step COMMAND…: shows the command, then runs it.
step() {
  printf '\n$ %s\n' "$*"
  "$@"
}

# train_and_kill RANKS LOG STEP CHECKPOINTS ARGUMENT…: SIGKILL for every rank after this step, while its save is under way.
train_and_kill() {
  local ranks=$1 log=$2 step=$3 checkpoints=$4 launcher
  shift 4
  printf '\n$ mpirun -n %s %s      # in the background, then kill -9\n' "$ranks" "$*"
  : >"$log"
  mpirun -n "$ranks" "$@" >"$log" 2>"$log.err" &
  launcher=$!
  until grep -q "^step $step " "$log"; do
    kill -0 $launcher 2>/dev/null || { cat "$log.err" >&2; return 1; }
    sleep 0.01
  done
  until compgen -G "$checkpoints/.iter_*.cairn-part" >/dev/null; do
    kill -0 $launcher 2>/dev/null || { cat "$log.err" >&2; return 1; }
  done
  # shellcheck disable=SC2046  # a number for each rank
  kill -KILL $(<"/proc/$launcher/task/$launcher/children")
  wait $launcher 2>/dev/null && return 1
  tail -n 2 "$log"
}

launch/setup.sh
build release cairn
build release elastic_training
rm -rf $work
mkdir -p $work

train_and_kill 4 $work/killed.log 25 $work/checkpoints "${trainer[@]}" $work/checkpoints
step $cairn latest $work/checkpoints
printf '\n$ mpirun -n 2 %s\n' "${trainer[*]} $work/checkpoints"
mpirun -n 2 "${trainer[@]}" $work/checkpoints >$work/resumed.log
sed -n '1,3p;$p' $work/resumed.log
printf '\n$ mpirun -n 3 %s      # never killed\n' "${trainer[*]} $work/whole"
mpirun -n 3 "${trainer[@]}" $work/whole >$work/whole.log
tail -n 1 $work/whole.log

step $cairn consolidate $work/checkpoints $work/model.pth --ema --objects safe
step $python launch/elastic/open_model.py $work/model.pth $work/model_ema_fp32.pth
step $python launch/elastic/curve.py $work/curve.svg "4 ranks, killed=$work/killed.log" "resumed on 2=$work/resumed.log" "3 ranks, never killed=$work/whole.log"
