// SPDX-License-Identifier: BSD-3-Clause
// What a save has left, looked at by all ranks. Collective.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cairn/checkpoint.hpp"
#include "world.hpp"

namespace cairn {

/// `verify --strict` of a directory finds nothing to say.
inline void expect_whole(const std::string& directory) {
  VerifyOptions options;
  options.path = directory;
  options.strict = true;
  const VerifyReport report = verify(world(), posix_file_system(), options);
  EXPECT_TRUE(report.faults.empty()) << report.faults.faults()[0].message;
  EXPECT_TRUE(report.warnings.empty()) << report.warnings[0];
}

}  // namespace cairn
