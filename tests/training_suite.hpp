// SPDX-License-Identifier: BSD-3-Clause
// A training tree in a directory of its own, looked at by one rank.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cairn/storage.hpp"
#include "cairn/training.hpp"
#include "training_fixture.hpp"

namespace cairn {

using Paths = std::vector<std::string>;
using Names = std::set<std::string>;

inline Paths paths_of(const std::vector<PassedIteration>& passed) {
  Paths paths;
  for (const auto& one : passed) paths.push_back(one.path);
  return paths;
}

class Training : public testing::Test {
 protected:
  std::string at(int number) { return dir_ / iteration_folder(number); }
  Paths all_at(std::initializer_list<int> numbers) {
    Paths paths;
    for (const int number : numbers) paths.push_back(at(number));
    return paths;
  }
  LatestReport latest(bool verify = false) {
    return find_latest(*solo_, posix_file_system(), dir_.path(), verify);
  }
  PruneReport pruned(const RetentionRule& rule, bool dry_run = false) {
    return prune(posix_file_system(), dir_.path(), rule, dry_run);
  }
  Names names() {
    Names found;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path()))
      found.insert(entry.path().filename());
    return found;
  }
  Names names_of(std::initializer_list<int> numbers, std::initializer_list<const char*> others = {}) {
    Names wanted(others.begin(), others.end());
    for (const int number : numbers) wanted.insert(iteration_folder(number));
    return wanted;
  }

  TempDir dir_;
  std::unique_ptr<Communicator> solo_ = solo_communicator();
};

}  // namespace cairn
