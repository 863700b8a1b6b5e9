// SPDX-License-Identifier: BSD-3-Clause
// A training tree: iterations with their components, and which of them are complete. Local; reads no payload.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formats/layout/folder.hpp"

namespace cairn::layout {

struct Iteration {
  std::string name;                    ///< of its directory
  std::optional<std::int64_t> number;  ///< none: only the pointer says that it is one
};

/// What is known of an iteration after a look at it.
struct Judgement {
  enum class State : std::uint8_t {
    complete,
    broken,
    unknown,  ///< the file system failed
  } state = State::broken;
  std::vector<std::string> components;  ///< names of subdirectories, sorted; "": the directory itself is one
  std::string reason;                   ///< why it is not complete

  bool is_complete() const { return state == State::complete; }
  bool has(std::string_view component) const;
};

/// The directory that holds the iterations of the tree at `root`: `root`, or its checkpoints/. Throws
/// not_found when there is none, and says what it is instead.
std::string tree_directory(FileSystem& files, const std::string& root);

/// Subdirectories of an iteration that are checkpoints, whole or not: they hold .metadata, shards, or the
/// temporary of either, or nothing at all. One whose own directory holds .metadata or shards: "".
std::vector<std::string> components_of(FileSystem& files, const std::string& iteration);

/// Looks at a tree as it is when it is made. Iterations are `iter_N`, `step-N`, `step_N`, and what the
/// pointer names, but for hidden names.
///
/// An iteration is complete when it has components, each of them has a .metadata that can be read, whose
/// chunks tile their tensors and whose items lie inside their shards (dcp/source.hpp), and none is missing:
/// - the one that the pointer names misses none, since the pointer is written last;
/// - newer ones have every component that the pointed one has;
/// - others have every component that both of their neighbours with components have, or the older one where
///   there is no newer one; the oldest misses none.
class TrainingTree {
 public:
  /// `directory` as of tree_directory(); one that is not there has no iterations. Throws what
  /// FileSystem::list throws. `files` outlives it.
  TrainingTree(FileSystem& files, std::string directory);

  const std::string& directory() const { return directory_; }
  /// Newest first, by number; one without, which the pointer names, comes last.
  const std::vector<Iteration>& iterations() const { return iterations_; }
  std::string path(const Iteration& iteration) const { return joined(directory_, iteration.name); }
  /// Index of the one that the pointer names.
  std::optional<std::size_t> pointed() const { return pointed_; }
  /// What is wrong with the pointer itself; empty: nothing, or there is none.
  const std::string& pointer_fault() const { return pointer_fault_; }
  bool has_pointer() const { return has_pointer_; }

  Judgement judge(std::size_t iteration);
  /// judge() in two steps: what names tell; then, where they tell nothing bad, what is in the files.
  Judgement look(std::size_t iteration);
  void examine(std::size_t iteration, Judgement& judgement) const;
  /// The directory of a component.
  std::string place(std::size_t iteration, const std::string& component) const;

 private:
  void find_pointed(const Folder& folder);
  const std::vector<std::string>& components(std::size_t iteration);
  /// Those of the next one in this direction that has some; null: there is none.
  const std::vector<std::string>* neighbour(std::size_t iteration, bool newer);
  std::vector<std::string> required(std::size_t iteration);
  std::string missing_from(std::size_t iteration, const Judgement& judgement);
  std::string damage_of(std::size_t iteration, const Judgement& judgement) const;

  FileSystem* files_;
  std::string directory_;
  std::vector<Iteration> iterations_;
  std::optional<std::size_t> pointed_;
  std::string pointer_fault_;
  bool has_pointer_ = false;
  std::map<std::size_t, std::vector<std::string>> components_;  // of those that were looked at
};

}  // namespace cairn::layout
