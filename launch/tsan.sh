#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# launch/tsan.sh [CTEST-ARGUMENT…]   the thread sanitizer over what runs in threads, ranks that are threads included;
#                                    builds everything once more: some ten minutes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. launch/build.sh

launch/setup.sh
quietly build/tsan/configure.log cmake --preset tsan
quietly build/tsan/compile.log cmake --build --preset tsan -j "${CMAKE_BUILD_PARALLEL_LEVEL:-$(getconf _NPROCESSORS_ONLN)}"
quietly build/tsan/ctest.log ctest --preset tsan --no-tests=error "$@"
sed -n '/% tests passed/,$p' build/tsan/ctest.log
