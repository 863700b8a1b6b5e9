// SPDX-License-Identifier: BSD-3-Clause
// The newest complete iteration of a tree, pinned. Local.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "cairn/training.hpp"
#include "formats/layout/training_tree.hpp"
#include "storage/read_pin.hpp"

namespace cairn {

/// Pins of the components of an iteration (kMostPins at most), or of the directory itself: of each one's
/// `.metadata`.
std::vector<ReadPin> pin_components(FileSystem& files, const std::string& iteration,
                                    const std::vector<std::string>& components);

/// Goes through a tree from its newest iteration on.
class IterationSearch {
 public:
  /// What the caller asks for beside completeness; a reason, or empty for an iteration that will do.
  using Objection = std::function<std::string(const layout::Judgement&)>;

  IterationSearch(FileSystem& files, std::string directory)
      : files_(&files), tree_(files, std::move(directory)) {}

  /// Moves to the next one that is complete and meets no objection, and pins it before its files are read.
  /// False: there is none any more. Where iterations came and went meanwhile it looks again, from the newest
  /// one on.
  bool next(const Objection& objection = {});
  /// The one it is at will not do after all.
  void pass_over(std::string reason);

  const layout::Iteration& iteration() const { return tree_.iterations()[at_]; }
  std::string path() const { return tree_.path(iteration()); }
  const layout::Judgement& judgement() const { return judgement_; }

  bool is_empty() const { return tree_.iterations().empty(); }
  const std::vector<PassedIteration>& skipped() const { return skipped_; }
  /// The first one that the file system did not let it look into: index into skipped().
  std::optional<std::size_t> unknown() const { return unknown_; }
  /// What there is to say about the pointer, seen from the iteration it is at.
  std::vector<std::string> warnings() const;

 private:
  bool find(const Objection& objection);
  bool look_again();

  FileSystem* files_;
  layout::TrainingTree tree_;
  std::size_t at_ = 0, begin_ = 0;  // where it is; where it goes on
  layout::Judgement judgement_{};
  std::vector<ReadPin> pins_;
  std::vector<PassedIteration> skipped_;
  std::optional<std::size_t> unknown_;
};

}  // namespace cairn
