// SPDX-License-Identifier: BSD-3-Clause
// Appends little-endian values to a growing byte buffer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

using Bytes = std::vector<std::byte>;

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class ByteWriter {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  void write(T value) { std::memcpy(extend(sizeof(T)), &value, sizeof(T)); }
  void append(std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(extend(bytes.size()), bytes.data(), bytes.size());
  }
  void text(std::string_view text) { append(as_bytes(text)); }
  /// Its length in 8 bytes first, for ByteReader::counted_text().
  void counted_text(std::string_view text) {
    write<std::uint64_t>(text.size());
    append(as_bytes(text));
  }
  void fill(std::byte value, std::size_t count) {
    if (count > 0) std::memset(extend(count), std::to_integer<int>(value), count);
  }

  /// Room for so many bytes in all, taken at once: it is touched only as it fills.
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  std::size_t size() const { return size_; }
  std::span<const std::byte> view() const { return {bytes_.data(), size_}; }
  /// Empty again; the memory is kept.
  void clear() { size_ = 0; }
  Bytes take() {
    bytes_.resize(std::exchange(size_, 0));
    return std::move(bytes_);
  }

 private:
  std::byte* extend(std::size_t count) {
    if (count > bytes_.size() - size_) grow(count);
    return bytes_.data() + std::exchange(size_, size_ + count);
  }
  // The room in front of the writer is small beside what is written: memory that nobody needs stays
  // untouched.
  [[gnu::noinline]] void grow(std::size_t count) {  // apart, so that extend() goes inline
    constexpr std::size_t least = 64, most = 64 << 10;
    const std::size_t wanted = size_ + count + std::clamp(size_, least, most);
    if (wanted > bytes_.capacity()) bytes_.reserve(std::max(wanted, 2 * bytes_.capacity()));
    bytes_.resize(wanted);
  }

  Bytes bytes_;  // with room at the end
  std::size_t size_ = 0;
};

}  // namespace cairn
