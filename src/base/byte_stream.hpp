// SPDX-License-Identifier: BSD-3-Clause
// A cursor over untrusted little-endian bytes that only goes forward, as ByteReader does, over a file that
// need not be in memory: what is in reach is a window that moves along.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/fail.hpp"
#include "base/pool.hpp"

namespace cairn {

class ByteStream {
 public:
  /// Fills `into` with the bytes from `byte_offset` on; throws what reading throws.
  using Read = std::function<void(std::uint64_t byte_offset, std::span<std::byte> into)>;

  /// Over bytes in memory. `what` names the input in messages.
  ByteStream(std::span<const std::byte> bytes, std::string_view what)
      : at_(bytes.data()), end_(at_ + bytes.size()), size_(bytes.size()), end_offset_(size_), what_(what) {}
  /// Over `size` bytes that `read` hands out in pieces of `window_bytes`; longer ones where a single value is
  /// longer.
  ByteStream(std::uint64_t size, Read read, std::string_view what, std::size_t window_bytes = 256 << 10)
      : size_(size), read_(std::move(read)), window_bytes_(window_bytes), what_(what) {}
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  std::uint64_t size() const { return size_; }
  std::uint64_t position() const { return end_offset_ - buffered(); }
  std::uint64_t remaining() const { return size_ - position(); }

  /// Little-endian integer or float. Throws corrupt past the end.
  template <class T>
  requires std::is_arithmetic_v<T> T read() {
    T value;
    std::memcpy(&value, need(sizeof(T)), sizeof(T));
    return value;
  }
  /// Valid until the next call.
  std::string_view text(std::uint64_t count) {
    return {reinterpret_cast<const char*>(need(count)), static_cast<std::size_t>(count)};
  }
  /// As text(), up to the next '\n', which is passed over. Throws corrupt where none comes.
  std::string_view line() {
    const std::uint64_t start = position();
    for (std::size_t searched = 0;;) {
      const std::string_view near(reinterpret_cast<const char*>(at_), buffered());
      const std::size_t length = near.find('\n', searched);
      if (length != near.npos) return text(length + 1).substr(0, length);
      searched = buffered();
      if (searched == remaining()) fail_corrupt("{}: byte {}: a line that does not end", what_, start);
      refill(searched + 1);
    }
  }
  /// Up to `count` bytes that come next, fewer at the end; they are not passed over.
  std::span<const std::byte> peek(std::size_t count) {
    count = static_cast<std::size_t>(std::min<std::uint64_t>(count, remaining()));
    if (count > buffered()) refill(count);
    return {at_, count};
  }

  /// Whether these bytes come next; false, too, where they are not in reach yet.
  template <class... Bytes>
  bool next_is(Bytes... bytes) const {
    if (buffered() < sizeof...(bytes)) return false;
    const std::byte* at = at_;
    return ((*at++ == static_cast<std::byte>(bytes)) && ...);
  }
  /// After next_is().
  void skip_buffered(std::size_t count) { at_ += count; }

 private:
  std::size_t buffered() const { return static_cast<std::size_t>(end_ - at_); }

  const std::byte* need(std::uint64_t count) {
    if (count > buffered()) [[unlikely]]
      refill(count);
    const std::byte* const found = at_;
    at_ += count;
    return found;
  }

  /// Brings `count` bytes into reach.
  [[gnu::noinline]] void refill(std::uint64_t count) {
    if (count > remaining()) {
      fail_corrupt("{}: {} bytes expected at byte {}, {} left", what_, count, position(), remaining());
    }
    const std::size_t kept = buffered();
    const std::uint64_t wanted = std::min(std::max<std::uint64_t>(count, window_bytes_), remaining());
    if (window_.size() < wanted) {
      Pool<std::byte> larger;
      larger.extend(static_cast<std::size_t>(std::max<std::uint64_t>(wanted, window_.size() * 2)));
      std::ranges::copy(at_, end_, larger.all().begin());
      window_.swap(larger);
    } else {
      std::memmove(window_.all().data(), at_, kept);
    }
    const auto fresh = window_.all().subspan(kept, static_cast<std::size_t>(wanted) - kept);
    at_ = window_.data();
    end_ = at_ + kept;
    read_(end_offset_, fresh);
    end_ += fresh.size();
    end_offset_ += fresh.size();
  }

  const std::byte* at_ = nullptr;
  const std::byte* end_ = nullptr;
  std::uint64_t size_;
  std::uint64_t end_offset_ = 0;  // of end_
  Read read_;
  std::size_t window_bytes_ = 0;
  Pool<std::byte> window_;
  std::string_view what_;
};

}  // namespace cairn
