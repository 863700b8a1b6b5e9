// SPDX-License-Identifier: BSD-3-Clause
// An iteration that becomes visible at once, with the pointer that names it (docs/publishing.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/storage.hpp"
#include "storage/atomic_output.hpp"

namespace cairn {

/// `iter_%09d`.
std::string iteration_name(std::int64_t iteration);

/// Held by the coordinator alone, from before the first component is saved until all are. Local.
///
/// The lock of the pointer's temporary says that a job saves into the tree.
class IterationOutput {
 public:
  /// Makes `directory` where it is missing, takes the lock, removes what killed saves and removals have left,
  /// and makes the hidden directory part(). Throws already_exists when the iteration is there and complete,
  /// when something else has its name, when it, its hidden directory or the pointer is a link, or when
  /// another job saves into the tree; io when it cannot be told.
  IterationOutput(FileSystem& files, const std::string& directory, std::int64_t iteration, bool sync,
                  std::vector<std::string>& warnings);
  IterationOutput(const IterationOutput&) = delete;
  /// Without publish() the hidden directory is removed. A failure to is ignored: the next save removes it.
  ~IterationOutput();

  const std::string& path() const { return path_; }  ///< what the iteration's directory will be
  const std::string& part() const { return part_; }  ///< what it is until then

  /// All components are there, whole, and with sync durable. Writes the pointer under its temporary name,
  /// renames the directory, then the pointer. Throws with neither renamed, but where is_published() says
  /// otherwise: then only making the names durable failed.
  void publish(std::vector<std::string>& warnings);
  bool is_published() const { return published_; }

 private:
  void look_at_present();
  void remove_leftovers(std::vector<std::string>& warnings);
  void show();

  FileSystem& files_;
  std::string directory_, path_, part_;
  bool sync_, published_ = false;
  AtomicOutput pointer_;
  bool replaces_ = false;
  std::vector<std::string> replaced_;  // components of what is there and not complete
};

}  // namespace cairn
