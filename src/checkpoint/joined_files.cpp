// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/joined_files.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "checkpoint/open_late.hpp"
#include "storage/file_cache.hpp"

namespace cairn {
namespace {

[[noreturn]] void refuse() { fail(ErrorKind::io, "files that are joined are only written"); }

}  // namespace

JoinedFiles::JoinedFiles(FileSystem& files, std::vector<Part> parts, double timeout_s, bool sync)
    : File("the shards"),
      files_(files),
      parts_(std::move(parts)),
      timeout_s_(timeout_s),
      sync_(sync),
      capacity_(default_file_capacity()) {}

void JoinedFiles::write(std::uint64_t byte_offset, std::span<const std::byte> bytes) {
  const ByteRange range{byte_offset, byte_offset + bytes.size()};
  const auto after =
      std::ranges::upper_bound(parts_, range.begin, {}, [](const Part& part) { return part.range.end; });
  for (auto part = after; part != parts_.end() && part->range.begin < range.end; ++part) {
    const ByteRange here = clip(part->range, range);
    if (here.size() == 0) continue;
    open(static_cast<std::size_t>(part - parts_.begin()))
        ->write(part->file_offset + here.begin - part->range.begin,
                bytes.subspan(here.begin - range.begin, here.size()));
  }
}

std::shared_ptr<File> JoinedFiles::open(std::size_t part) {
  const std::lock_guard lock(mutex_);
  if (const auto found = open_.find(part); found != open_.end()) return found->second;
  if (open_.size() >= capacity_) make_room();
  return open_[part] = open_write_late(files_, parts_[part].path, timeout_s_);
}

// Threads go through the parts in order: those that nobody writes to are done, mostly.
void JoinedFiles::make_room() {
  const auto idle =
      std::ranges::find_if(open_, [](const auto& entry) { return entry.second.use_count() == 1; });
  if (idle == open_.end()) return;
  if (sync_) idle->second->sync();
  idle->second->close();
  open_.erase(idle);
}

void JoinedFiles::sync() {
  const std::lock_guard lock(mutex_);
  for (const auto& [part, file] : open_) file->sync();
}

void JoinedFiles::close() {
  const std::lock_guard lock(mutex_);
  for (const auto& [part, file] : open_) file->close();
  open_.clear();
}

std::uint64_t JoinedFiles::size() { refuse(); }
FileStatus JoinedFiles::status() { refuse(); }
void JoinedFiles::read(std::uint64_t, std::span<std::byte>) { refuse(); }
std::uint64_t JoinedFiles::copy_from(File&, std::uint64_t, std::uint64_t, std::uint64_t) { refuse(); }
void JoinedFiles::allocate(std::uint64_t) { refuse(); }
bool JoinedFiles::try_lock() { refuse(); }
bool JoinedFiles::try_lock_shared() { refuse(); }

}  // namespace cairn
