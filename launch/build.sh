# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced by the scripts of this folder: steps that are quiet unless they fail.

# quietly LOG COMMAND…: keeps the output in LOG and shows its end when COMMAND fails. On a terminal, says so first.
quietly() {
  local log=$1
  shift
  if [[ -t 2 ]]; then echo "$*" >&2; fi
  mkdir -p "$(dirname "$log")"
  if "$@" >"$log" 2>&1 </dev/null; then return; fi
  tail -n 100 "$log" >&2
  echo "failed: $* (all of its output: $log)" >&2
  return 1
}

# build PRESET TARGET [CMAKE-ARGUMENT…]: into build/PRESET, CMAKE_BUILD_PARALLEL_LEVEL (all cores) jobs.
build() {
  local preset=$1 target=$2 jobs
  shift 2
  jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(getconf _NPROCESSORS_ONLN)}
  quietly "build/$preset/configure.log" cmake --preset "$preset" "$@"
  quietly "build/$preset/compile.log" cmake --build "build/$preset" --target "$target" -j "$jobs"
}
