// SPDX-License-Identifier: BSD-3-Clause
// Who may unlink a temporary: only the holder of its lock, after seeing that the name still is the locked
// file. Names are only made with O_EXCL, so from then on nobody else can change what the name means.
#include "storage/atomic_output.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "base/fail.hpp"

namespace cairn {

namespace {

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

[[noreturn]] void fail_busy(const std::string& final_path) {
  fail(ErrorKind::already_exists, "{}: another run is writing it", final_path);
}

template <class Open>
std::unique_ptr<File> open_unless(ErrorKind expected, Open open) {
  try {
    return open();
  } catch (const Error& error) {
    if (error.kind() != expected) throw;
    return nullptr;
  }
}

// Such a file may be taken for the temporary or the old file of an output beside it.
bool is_reserved(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  return name.starts_with('.') &&
         (name.ends_with(".cairn-part") || name.ends_with(".cairn-old") || name.ends_with(".cairn-journal"));
}

// Another run may hold the lock of a file it found for the moment it takes to look at it.
bool lock_new(File& file) {
  for (int attempt = 0; attempt < 50; ++attempt) {
    if (file.try_lock()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace

std::string hidden_path_for(const std::string& final_path, std::string_view ending) {
  const auto name = final_path.rfind('/') + 1;  // npos + 1 is 0
  return final_path.substr(0, name) + "." + final_path.substr(name) + std::string(ending);
}

std::string temporary_path_for(const std::string& final_path) {
  return hidden_path_for(final_path, ".cairn-part");
}

std::string journal_path_for(const std::string& final_path) {
  return hidden_path_for(final_path, ".cairn-journal");
}

AtomicOutput::AtomicOutput(FileSystem& files, std::string final_path, bool overwrite)
    : files_(&files),
      final_path_(std::move(final_path)),
      temporary_path_(temporary_path_for(final_path_)),
      overwrite_(overwrite) {}

AtomicOutput::~AtomicOutput() {
  try {
    if (!kept_) discard();
  } catch (const Error&) {
  }
}

AtomicOutput AtomicOutput::create(FileSystem& files, const std::string& final_path, std::uint64_t size,
                                  bool overwrite, bool discard_leftover) {
  AtomicOutput output(files, files.resolve(final_path), overwrite);
  output.check_final();
  {
    const SignalsHeld held;
    output.claim_temporary(overwrite || discard_leftover);
    output.on_signal_ = RemoveOnSignal(output.temporary_path_);
  }
  output.remove_journal();  // of a run that had published its temporary
  output.lock_->allocate(size);
  return output;
}

void AtomicOutput::check(FileSystem& files, const std::string& final_path, bool overwrite,
                         bool discard_leftover) {
  const AtomicOutput output(files, final_path, overwrite);
  output.check_final();
  output.find_discardable(overwrite || discard_leftover);
}

std::optional<AtomicOutput> AtomicOutput::reopen(FileSystem& files, const std::string& final_path,
                                                 bool overwrite) {
  AtomicOutput output(files, files.resolve(final_path), overwrite);
  output.kept_ = true;
  auto file = output.open_leftover(output.temporary_path_);
  if (!file) return std::nullopt;
  output.shown_ = output.names_our_file(*file, output.final_path_);
  if (output.shown_)
    files.unlink(output.temporary_path_);  // renamed by a link, and killed before its second half
  else
    output.check_final();
  output.lock_ = std::move(file);
  return output;
}

std::optional<AtomicOutput> AtomicOutput::reopen_shown(FileSystem& files, const std::string& final_path,
                                                       bool overwrite) {
  AtomicOutput output(files, files.resolve(final_path), overwrite);
  output.kept_ = output.shown_ = true;
  output.lock_ = output.open_leftover(output.final_path_);
  if (!output.lock_) return std::nullopt;
  return output;
}

void AtomicOutput::check_final() const {
  if (is_reserved(final_path_)) {
    fail(ErrorKind::invalid_argument, "{}: names like this are for outputs in the making; choose another one",
         final_path_);
  }
  const auto found = files_->status(final_path_, false);
  if (!found) return;
  if (found->type != FileType::regular) {
    fail(ErrorKind::io, "{}: {} is in the way of the output file", final_path_,
         found->type == FileType::directory ? "a directory" : "something that is not a regular file");
  }
  if (!overwrite_) {
    throw Error(ErrorKind::already_exists, final_path_ + ": the output is there already",
                "use --overwrite to replace it");
  }
}

void AtomicOutput::claim_temporary(bool discard_leftover) {
  constexpr int most_attempts = 10;  // each follows a file of another run that came and went
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    auto file =
        open_unless(ErrorKind::already_exists, [&] { return files_->create_exclusive(temporary_path_); });
    if (!file) {
      settle_leftover(discard_leftover);
    } else if (hold(*file)) {
      lock_ = std::move(file);
      return;
    }
  }
  fail_busy(final_path_);
}

bool AtomicOutput::hold(File& created) const {
  try {
    return lock_new(created) && names_our_file(created, temporary_path_);
  } catch (const Error&) {
    if (names_our_file(created, temporary_path_)) files_->unlink(temporary_path_);
    throw;
  }
}

bool AtomicOutput::names_our_file(File& file, const std::string& path) const {
  const auto ours = file.status();
  const auto named = files_->status(path, false);
  return named && named->device == ours.device && named->inode == ours.inode;
}

std::unique_ptr<File> AtomicOutput::open_leftover(const std::string& path) const {
  const auto look = [&] {
    auto file = open_unless(ErrorKind::not_found, [&] { return files_->open_write(path); });
    if (file && !file->try_lock()) fail_busy(final_path_);
    return file;
  };
  auto file = look();
  if (file) {  // its maker may be about to lock it
    file.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    file = look();
  }
  if (file && !names_our_file(*file, path)) file.reset();
  return file;
}

std::unique_ptr<File> AtomicOutput::find_discardable(bool discard) const {
  auto file = open_leftover(temporary_path_);
  if (file && !discard) {
    throw Error(ErrorKind::already_exists, temporary_path_ + ": left behind by a run that was killed",
                "--overwrite discards it, --resume continues it");
  }
  return file;
}

void AtomicOutput::settle_leftover(bool discard) const {
  const auto file = find_discardable(discard);
  if (!file) return;
  remove_journal();
  files_->unlink(temporary_path_);
}

// Nobody may take it for that of another temporary.
void AtomicOutput::remove_journal() const {
  const std::string journal = journal_path_for(final_path_);
  if (files_->status(journal, false)) files_->unlink(journal);
}

void AtomicOutput::keep() {
  kept_ = true;
  on_signal_ = {};
}

void AtomicOutput::make_durable() { lock_->sync(); }

void AtomicOutput::show() {
  if (overwrite_) {
    files_->rename(temporary_path_, final_path_);
  } else {
    files_->rename_no_replace(temporary_path_, final_path_);
  }
  shown_ = true;
}

void AtomicOutput::unshow() {
  shown_ = false;
  if (!kept_) return;
  try {
    if (names_our_file(*lock_, final_path_)) files_->link(final_path_, temporary_path_);
  } catch (const Error&) {  // putting an old output back matters more than going on later
  }
}

void AtomicOutput::settle(bool sync) {
  lock_.reset();
  on_signal_ = {};
  if (sync) files_->sync_directory(directory_of(final_path_));
}

void AtomicOutput::withdraw() {
  if (names_our_file(*lock_, final_path_)) files_->unlink(final_path_);
}

void AtomicOutput::publish(bool sync) {
  if (sync) make_durable();
  show();
  settle(sync);
}

void AtomicOutput::discard() {
  const auto unlocked_at_the_end = std::move(lock_);
  if (!unlocked_at_the_end) return;
  if (names_our_file(*unlocked_at_the_end, temporary_path_)) {
    remove_journal();
    files_->unlink(temporary_path_);
  }
  on_signal_ = {};
}

}  // namespace cairn
