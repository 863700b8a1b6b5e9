// SPDX-License-Identifier: BSD-3-Clause
// The bytes that a zstd stream expands to, from front to back (RFC 8878). Local; one thread at a time.
//
// An item of a `.distcp` file that torch.distributed.checkpoint._extension.ZStandard wrote is one stream: a
// frame without its content's size, or several frames one after the other (pyzstd ends one at each flush).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace cairn::dcp {

/// Whether streams can be read: libzstd is an optional part (CAIRN_WITH_ZSTD).
bool has_zstd();
/// "1.5.4", or empty without it.
std::string zstd_version();

/// Of the frames' windows, in bytes: what RFC 8878, 3.1.1.1.2 has every decoder take, and encoders keep to.
/// torch's level 3 takes 2 MiB.
inline constexpr int kMostWindowLog = 23;

class ZstdStream {
 public:
  /// Reads bytes of the stream, which has `bytes`.
  using Read = std::function<void(std::uint64_t at, std::span<std::byte> into)>;

  /// `where` comes first in messages.
  ZstdStream(Read read, std::uint64_t bytes, std::string where);
  ~ZstdStream();

  /// Fills `into` from where the last call stopped; fewer bytes only at the end. Throws corrupt where a frame
  /// is damaged or not complete, or something else follows the last one; unsupported for larger windows.
  std::size_t next(std::span<std::byte> into);
  /// Bytes that came out so far.
  std::uint64_t position() const { return position_; }

 private:
  struct Context;
  [[noreturn]] void fail_at_frame(std::size_t code) const;
  [[noreturn]] void fail_at_end() const;
  void refill();

  Read read_;
  std::uint64_t bytes_;
  std::string where_;
  std::uint64_t at_ = 0;           // what follows the input buffer
  std::uint64_t frame_begin_ = 0;  // of the frame that is open, or comes next
  std::uint64_t position_ = 0;
  bool frame_open_ = true;  // a stream has one frame at least
  std::unique_ptr<Context> context_;
};

}  // namespace cairn::dcp
