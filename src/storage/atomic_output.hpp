// SPDX-License-Identifier: BSD-3-Clause
// One output file that becomes visible only when it is whole: written under a temporary name in its
// directory, then renamed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cairn/storage.hpp"
#include "storage/signal_cleanup.hpp"

namespace cairn {

/// `<directory>/.<name>.cairn-part`. Local.
std::string temporary_path_for(const std::string& final_path);

/// Held by the coordinator alone, from before the first byte is written until the output is published. All
/// ranks, the coordinator too, write through their own FileSystem::open_write(temporary_path()) and sync and
/// close that before publish(): the descriptor in here holds the lock that tells a running job from a killed
/// one. Local.
class AtomicOutput {
 public:
  /// Creates the temporary, locks it, gives it its final `size`. A symlink at `final_path` is followed; its
  /// directory must exist. Throws already_exists when the output is there and not to be overwritten, when a
  /// living process writes it, or when a killed one left its temporary and `overwrite` is false (true
  /// discards it); io when something that is not a regular file is in the way, or the disk is full.
  static AtomicOutput create(FileSystem& files, const std::string& final_path, std::uint64_t size,
                             bool overwrite);
  /// Throws what create() would find in the way, and makes nothing. Missing directories are nothing's way.
  static void check(FileSystem& files, const std::string& final_path, bool overwrite);
  AtomicOutput(AtomicOutput&&) noexcept = default;
  AtomicOutput& operator=(AtomicOutput&&) = delete;
  /// discard(); never publishes. Failures to remove are ignored.
  ~AtomicOutput();

  const std::string& final_path() const { return final_path_; }  ///< absolute, links resolved
  const std::string& temporary_path() const { return temporary_path_; }

  /// Renames the temporary to the final name; with `sync` it is durable first and the name afterwards. Throws
  /// already_exists when the output appeared meanwhile and is not to be overwritten. After a failure the old
  /// output is untouched, except where only making the new name durable failed.
  void publish(bool sync);
  /// publish() in three steps, for outputs that appear together: everything that can be made durable before;
  /// the rename; giving up the lock and making the name durable.
  void make_durable();
  void show();
  void settle(bool sync);
  /// Between show() and settle(): removes the output again, if the name still is what show() renamed.
  void withdraw();
  /// Removes the temporary. Does nothing after publish() or discard(); publish() is called at most once.
  void discard();

 private:
  AtomicOutput(FileSystem& files, std::string final_path, bool overwrite);
  void check_final() const;
  void claim_temporary();
  /// False: another run discarded the file before it was locked.
  bool hold(File& created) const;
  bool names_our_file(File& file, const std::string& path) const;
  /// False: there is none. Throws for one that may not be discarded.
  bool has_leftover() const;
  /// The leftover is gone afterwards, or this throws.
  void settle_leftover() const;

  FileSystem* files_;
  std::string final_path_, temporary_path_;
  bool overwrite_;
  std::unique_ptr<File> lock_;  ///< null: published, discarded or moved from
  RemoveOnSignal on_signal_;
};

}  // namespace cairn
