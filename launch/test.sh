#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# launch/test.sh [CTEST-ARGUMENT…]   set-up, both builds, all tests; prints ctest's closing lines, or what failed
#
# The unit tests, and what 3 ranks do together, run under the address and undefined-behaviour sanitizers first,
# then every test but those labelled slow or gpu runs in the release build. All optional parts are on, warnings
# are errors.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. launch/build.sh

launch/setup.sh

gate=(-DCAIRN_WERROR=ON -DCAIRN_WITH_MPI=ON -DCAIRN_WITH_TORCH=ON -DCAIRN_WITH_HDF5=ON -DCAIRN_WITH_ISAL=ON
      -DCAIRN_WITH_ZSTD=ON)
build release all "${gate[@]}"
build sanitize sanitized_tests "${gate[@]}"

jobs=$((2 * $(getconf _NPROCESSORS_ONLN)))  # most tests wait more than they compute
quietly build/sanitize/ctest.log ctest --preset sanitize -j "$jobs" --no-tests=error
quietly build/release/ctest.log ctest --preset release -j "$jobs" --no-tests=error -LE '^(slow|gpu)$' "$@"
sed -n '/% tests passed/,$p' build/release/ctest.log
