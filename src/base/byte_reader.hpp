// SPDX-License-Identifier: BSD-3-Clause
// A cursor over untrusted little-endian bytes: every read is bounds-checked.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/fail.hpp"

namespace cairn {

static_assert(std::endian::native == std::endian::little, "Cairn runs on little-endian machines");

class ByteReader {
 public:
  /// `what` names the input in messages ("pickle", "zip directory").
  ByteReader(std::span<const std::byte> bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }
  bool at_end() const { return remaining() == 0; }

  /// Little-endian integer or float. Throws corrupt past the end.
  template <class T>
  requires std::is_arithmetic_v<T> T read() {
    T value;
    std::memcpy(&value, need(sizeof(T)), sizeof(T));
    return value;
  }

  std::span<const std::byte> bytes(std::uint64_t count) {
    return {need(count), static_cast<std::size_t>(count)};
  }
  std::string_view text(std::uint64_t count) {
    return {reinterpret_cast<const char*>(need(count)), static_cast<std::size_t>(count)};
  }
  std::string_view counted_text() { return text(read<std::uint64_t>()); }
  void skip(std::uint64_t count) { need(count); }

 private:
  const std::byte* need(std::uint64_t count) {
    if (count > remaining()) {
      fail_corrupt("{}: {} bytes expected at byte {}, {} left", what_, count, position_, remaining());
    }
    const std::byte* at = bytes_.data() + position_;
    position_ += static_cast<std::size_t>(count);
    return at;
  }

  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  std::string_view what_;
};

}  // namespace cairn
