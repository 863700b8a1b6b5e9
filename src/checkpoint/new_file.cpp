// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/new_file.hpp"

#include "checkpoint/open_late.hpp"

namespace cairn {

struct NewFile::Removal {
  FileSystem& files;
  std::string path;
  RemoveOnSignal on_signal;

  ~Removal() {
    if (path.empty()) return;
    try {
      files.unlink(path);
    } catch (const Error&) {  // nothing refers to it
    }
  }
};

NewFile::NewFile(FileSystem& files, std::string path) {
  const SignalsHeld held;
  file_ = files.create_exclusive(path);
  RemoveOnSignal on_signal(path);
  removal_.reset(new Removal{files, std::move(path), std::move(on_signal)});
}

NewFile NewFile::create_late(FileSystem& files, const std::string& path, double timeout_s) {
  try {
    return while_missing(std::chrono::steady_clock::now(), timeout_s, [&] { return NewFile(files, path); });
  } catch (Error& error) {
    if (error.kind() == ErrorKind::not_found)
      error.add_hint("rank 0 has made the directory: is it where all ranks see it?");
    throw;
  }
}

std::vector<NewFile> NewFile::create_all(FileSystem& files, std::span<const AtomicOutputs::Wanted> wanted) {
  std::vector<NewFile> all;
  for (const auto& [path, size] : wanted) {
    NewFile& made = all.emplace_back(files, path);
    made.file().allocate(size);
    made.close();
  }
  return all;
}

NewFile::NewFile(NewFile&& other) noexcept = default;
NewFile::~NewFile() = default;

void NewFile::close() {
  file_->close();
  file_.reset();
}

void NewFile::outlive_signals() { removal_->on_signal = RemoveOnSignal(); }

void NewFile::keep() {
  removal_->path.clear();
  removal_.reset();
}

}  // namespace cairn
