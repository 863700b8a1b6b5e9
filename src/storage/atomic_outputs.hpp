// SPDX-License-Identifier: BSD-3-Clause
// Several output files that become visible together.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "storage/atomic_output.hpp"

namespace cairn {

/// `<directory>/.<name>.cairn-old`: the second name of an old output while a set is being renamed. Local.
std::string old_path_for(const std::string& final_path);

/// As AtomicOutput, for a set: all durable under temporary names first, then renamed back to back, the first
/// one last, so that it never appears without the others. Local; held by the coordinator.
class AtomicOutputs {
 public:
  struct Wanted {
    std::string path;
    std::uint64_t size;  ///< bytes
  };
  /// At least one. Throws as AtomicOutput::create does; then no temporary is left.
  static AtomicOutputs create(FileSystem& files, const std::vector<Wanted>& wanted, bool overwrite,
                              bool discard_leftovers = false);
  /// Throws what create() would find in the way, and makes nothing; directories may be missing. Returns the
  /// final paths.
  static std::vector<std::string> check(FileSystem& files, const std::vector<Wanted>& wanted, bool overwrite,
                                        bool discard_leftovers = false);
  /// Of outputs that AtomicOutput::reopen or reopen_shown took up. Those that are shown stay so.
  AtomicOutputs(FileSystem& files, bool overwrite, std::vector<AtomicOutput> outputs);

  std::size_t size() const { return outputs_.size(); }
  const AtomicOutput& operator[](std::size_t index) const { return outputs_[index]; }
  /// See AtomicOutput.
  void keep();
  void discard();

  /// Called at most once. `before_show`, where there is one, is called when all are durable. Old outputs are
  /// kept as hard links until the last rename; a rename that fails puts them back and takes away what had
  /// appeared, then throws. SIGINT and SIGTERM wait for this thread meanwhile. Throws io, with nothing
  /// changed, where an old output must be kept and the file system has no hard links (a single output needs
  /// none).
  void publish(bool sync, const std::function<void()>& before_show = {});

 private:
  bool keep_old(std::size_t index) const;
  void show_all();
  /// Words about what could not be put back; empty: all is as before.
  std::string put_back(const std::vector<std::size_t>& shown);
  void drop_old() const;

  FileSystem* files_;
  bool overwrite_;
  std::vector<AtomicOutput> outputs_;
  std::vector<bool> kept_;  // the old output has its second name
};

}  // namespace cairn
