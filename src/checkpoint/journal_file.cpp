// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/journal_file.hpp"

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "storage/atomic_output.hpp"

namespace cairn {

std::optional<JournalContent> read_journal(FileSystem& files, const std::string& path) {
  if (!files.status(path, false)) return std::nullopt;
  const auto file = files.open_write(path);  // follows no link
  Bytes bytes(file->size());
  file->read(0, bytes);
  return decode_journal(bytes, escape_name(path));
}

JournalFile::JournalFile(FileSystem& files, const std::string& path, bool sync)
    : files_(&files), file_(files.open_write(path)), sync_(sync) {}

JournalFile JournalFile::create(FileSystem& files, const std::string& path, const JournalJob& job,
                                bool sync) {
  const Bytes bytes = begin_journal(job);
  const std::string beside = temporary_path_for(path);
  if (files.status(beside, false)) files.unlink(beside);  // of a run that was killed here
  try {
    const auto file = files.create_exclusive(beside);
    file->write(0, bytes);
    if (sync) file->sync();
    file->close();
    files.rename(beside, path);
  } catch (const Error&) {
    if (files.status(beside, false)) files.unlink(beside);
    throw;
  }
  if (sync) files.sync_directory(path.substr(0, path.rfind('/') + 1));
  JournalFile journal(files, path, sync);
  journal.end_ = bytes.size();
  journal.entries_ = 1;
  return journal;
}

JournalFile JournalFile::reopen(FileSystem& files, const std::string& path, const JournalContent& content,
                                bool sync) {
  JournalFile journal(files, path, sync);
  journal.end_ = content.bytes;
  journal.entries_ = content.entries;
  if (journal.file_->size() > content.bytes) journal.file_->allocate(content.bytes);
  return journal;
}

void JournalFile::append(std::span<const std::byte> entry) {
  file_->write(end_, entry);
  if (sync_) file_->sync();
  end_ += entry.size();
  ++entries_;
}

void JournalFile::add_machines(std::span<const std::string> machines) {
  append(machines_entry(entries_, machines));
}

void JournalFile::add_windows(std::span<const std::byte> windows) {
  append(windows_entry(entries_, windows));
}

void JournalFile::add_complete(std::span<const std::uint32_t> tails) {
  append(complete_entry(entries_, tails));
}

void JournalFile::remove() {
  try {
    files_->unlink(file_->path());
  } catch (const Error&) {
  }
}

}  // namespace cairn
