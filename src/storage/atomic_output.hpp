// SPDX-License-Identifier: BSD-3-Clause
// One output file that becomes visible only when it is whole: written under a temporary name in its
// directory, then renamed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cairn/storage.hpp"
#include "storage/signal_cleanup.hpp"

namespace cairn {

/// `<directory>/.<name><ending>`. Local.
std::string hidden_path_for(const std::string& final_path, std::string_view ending);
/// `<directory>/.<name>.cairn-part`. Local.
std::string temporary_path_for(const std::string& final_path);
/// `<directory>/.<name>.cairn-journal`: what a run that can be continued says of that temporary. It goes
/// before the temporary goes, and only whoever holds the lock touches it, or finds that no temporary is
/// there. Local.
std::string journal_path_for(const std::string& final_path);

/// Held by the coordinator alone, from before the first byte is written until the output is published. All
/// ranks, the coordinator too, write through their own FileSystem::open_write(temporary_path()) and sync and
/// close that before publish(): the descriptor in here holds the lock that tells a running job from a killed
/// one. Local.
class AtomicOutput {
 public:
  /// Creates the temporary, locks it, gives it its final `size`. A symlink at `final_path` is followed; its
  /// directory must exist. Throws already_exists when the output is there and not to be overwritten, when a
  /// living process writes it, or when a killed one left its temporary and neither `overwrite` nor
  /// `discard_leftover` allows to discard it; io when something that is not a regular file is in the way, or
  /// the disk is full.
  static AtomicOutput create(FileSystem& files, const std::string& final_path, std::uint64_t size,
                             bool overwrite, bool discard_leftover = false);
  /// Throws what create() would find in the way, and makes nothing. Missing directories are nothing's way.
  static void check(FileSystem& files, const std::string& final_path, bool overwrite,
                    bool discard_leftover = false);
  /// Takes up an output that keep() left, under whichever of its two names: locked, and kept again. nullopt
  /// when nothing is there. Throws as create does, for a temporary.
  static std::optional<AtomicOutput> reopen(FileSystem& files, const std::string& final_path, bool overwrite);
  static std::optional<AtomicOutput> reopen_shown(FileSystem& files, const std::string& final_path,
                                                  bool overwrite);
  AtomicOutput(AtomicOutput&&) noexcept = default;
  AtomicOutput& operator=(AtomicOutput&&) = delete;
  /// discard() unless it is kept; never publishes. Failures to remove are ignored.
  ~AtomicOutput();

  const std::string& final_path() const { return final_path_; }  ///< absolute, links resolved
  const std::string& temporary_path() const { return temporary_path_; }
  /// Of the file, whichever name it has. Until it is published.
  FileStatus status() const { return lock_->status(); }
  /// The bytes from `at` on, whichever name the file has. Until it is published.
  void read(std::uint64_t at, std::span<std::byte> into) const { lock_->read(at, into); }

  /// From now on the temporary stays, with its journal, unless it is published or discard() is called.
  void keep();

  /// Renames the temporary to the final name; with `sync` it is durable first and the name afterwards. Throws
  /// already_exists when the output appeared meanwhile and is not to be overwritten. After a failure the old
  /// output is untouched, except where only making the new name durable failed.
  void publish(bool sync);
  /// publish() in three steps, for outputs that appear together: everything that can be made durable before;
  /// the rename; giving up the lock and making the name durable.
  void make_durable();
  void show();
  bool is_shown() const { return shown_; }
  void settle(bool sync);
  /// Between show() and settle(): the file gets its temporary name back where it is to be kept,
  /// if the file system can.
  void unshow();
  /// Between show() and settle(): removes the output again, if the name still is what show() renamed.
  void withdraw();
  /// Removes the temporary, its journal before. Does nothing after publish() or discard(); publish() is
  /// called at most once.
  void discard();

 private:
  AtomicOutput(FileSystem& files, std::string final_path, bool overwrite);
  void check_final() const;
  void claim_temporary(bool discard_leftover);
  /// False: another run discarded the file before it was locked.
  bool hold(File& created) const;
  bool names_our_file(File& file, const std::string& path) const;
  /// What a killed run left there, locked; null where nothing is. Throws already_exists when another holds
  /// it.
  std::unique_ptr<File> open_leftover(const std::string& path) const;
  /// open_leftover of the temporary, which throws for one that may not be discarded.
  std::unique_ptr<File> find_discardable(bool discard) const;
  /// The leftover is gone afterwards, or this throws.
  void settle_leftover(bool discard) const;
  void remove_journal() const;

  FileSystem* files_;
  std::string final_path_, temporary_path_;
  bool overwrite_;
  std::unique_ptr<File> lock_;  ///< null: published, discarded or moved from
  RemoveOnSignal on_signal_;
  bool kept_ = false, shown_ = false;
};

}  // namespace cairn
