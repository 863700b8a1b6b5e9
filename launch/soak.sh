#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# launch/soak.sh [KILLS]   a training job that saves all the time, killed 200 times at random moments and resumed
#                          on a random number of ranks: no checkpoint is lost, none is half. Some ten minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. launch/build.sh

launch/setup.sh
build release cairn
build release elastic_training
CAIRN_KILLS=${1:-200} CAIRN_PROGRAM=$PWD/build/release/cairn CAIRN_ENV=$PWD/launch/env.sh \
  CAIRN_TRAINER=$PWD/build/release/apps/elastic_training/elastic_training build/venv/bin/python -B tests/elastic/test_kills.py
