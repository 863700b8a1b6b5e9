// SPDX-License-Identifier: BSD-3-Clause
// Which iteration a job goes on from, or what it begins with. Local.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_writer.hpp"
#include "cairn/training.hpp"
#include "checkpoint/iteration_search.hpp"

namespace cairn {

struct ResumeChoice {
  std::string path;  ///< empty: nothing
  std::optional<std::int64_t> iteration;
  bool is_own = false;
  std::vector<std::pair<std::string, std::string>> sources;  ///< component, path of its checkpoint
  std::vector<PassedIteration> skipped;
  std::vector<std::string> warnings;

  Bytes encode() const;
  static ResumeChoice decode(std::span<const std::byte> bytes);
};

/// Of the coordinator. What it chose is pinned while it lives.
class ResumeChooser {
 public:
  /// `components` and `options` outlive it.
  ResumeChooser(FileSystem& files, const std::vector<std::string>& components, const ResumeOptions& options)
      : files_(files), components_(components), options_(options) {}

  /// For the job that saves into `directory`. Throws as TrainingCheckpoints::resume, before anything is
  /// loaded.
  ResumeChoice choose(const std::string& directory);

 private:
  ResumeChoice from_tree(const std::string& directory, const std::vector<std::string>& wanted);
  ResumeChoice from_iteration(const std::string& path, const std::vector<std::string>& wanted);
  ResumeChoice from_weights(const std::string& path) const;
  ResumeChoice from_elsewhere();
  std::vector<std::string> wanted_elsewhere() const;

  FileSystem& files_;
  const std::vector<std::string>& components_;
  const ResumeOptions& options_;
  std::optional<IterationSearch> search_;
  std::vector<ReadPin> pins_;
};

}  // namespace cairn
