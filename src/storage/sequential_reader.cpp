// SPDX-License-Identifier: BSD-3-Clause
#include "storage/sequential_reader.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace cairn {

void SequentialReader::start(std::shared_ptr<File> file, std::uint64_t end) {
  if (file != file_) filled_ = 0;
  file_ = std::move(file);
  limit_ = end;
}

std::span<const std::byte> SequentialReader::view(std::uint64_t at, std::size_t count) {
  if (!holds(at, count)) fill(at, count);
  return std::span(buffer_).subspan(static_cast<std::size_t>(at - begin_), count);
}

std::span<const std::byte> SequentialReader::some(std::uint64_t at, std::uint64_t most) {
  if (!holds(at, 1)) fill(at, 1);
  const auto skipped = static_cast<std::size_t>(at - begin_);
  return std::span(buffer_).subspan(
      skipped, static_cast<std::size_t>(std::min<std::uint64_t>(filled_ - skipped, most)));
}

void SequentialReader::peek(std::uint64_t at, std::span<std::byte> into) {
  if (into.empty()) return;
  if (!holds(at, into.size())) return read(at, into);
  std::memcpy(into.data(), buffer_.data() + (at - begin_), into.size());
}

bool SequentialReader::holds(std::uint64_t at, std::uint64_t count) const {
  return at >= begin_ && at - begin_ <= filled_ && count <= filled_ - (at - begin_);
}

// What is wanted and there already moves to the front: no byte is read twice on the way through a file.
void SequentialReader::fill(std::uint64_t at, std::size_t count) {
  const std::uint64_t ahead = at < limit_ ? std::min<std::uint64_t>(buffer_.size(), limit_ - at) : 0;
  const std::size_t wanted = std::max(count, static_cast<std::size_t>(ahead));
  if (wanted > buffer_.size()) buffer_.resize(wanted);
  const std::size_t kept = holds(at, 1) ? filled_ - static_cast<std::size_t>(at - begin_) : 0;
  if (kept > 0) std::memmove(buffer_.data(), buffer_.data() + (at - begin_), kept);
  begin_ = at;
  filled_ = kept;
  read(at + kept, std::span(buffer_).subspan(kept, wanted - kept));
  filled_ = wanted;
}

void SequentialReader::read(std::uint64_t at, std::span<std::byte> into) {
  file_->read(at, into);
  read_bytes_ += into.size();
}

}  // namespace cairn
