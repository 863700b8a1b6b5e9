// SPDX-License-Identifier: BSD-3-Clause
// What ranks say to each other about reads: see remote_reads.hpp. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cairn/communicator.hpp"
#include "cairn/error.hpp"

namespace cairn {

inline constexpr std::uint32_t kMostReadSlots = 64;  ///< reads on their way at once, over all ranks
inline constexpr int kRequestTag = 0;
/// Each slot has its own tags, so that answers find their reads in whatever order they come.
constexpr int state_tag(std::uint32_t slot) { return 1 + 3 * static_cast<int>(slot); }
constexpr int bytes_tag(std::uint32_t slot) { return state_tag(slot) + 1; }
constexpr int text_tag(std::uint32_t slot) { return state_tag(slot) + 2; }
/// In the place of the size of an error's text, with the number of the answer among those that this rank has
/// sent by its device: the bytes come by the link of the devices, in that order. With the tag of texts follow
/// the size of an error's text and the text, when the sending has ended.
inline constexpr std::uint64_t kByDevice = std::uint64_t{1} << 63;
inline constexpr int kDismissalTag = state_tag(kMostReadSlots);

struct ReadMessage {
  enum class Kind : std::uint32_t {
    read,     ///< answered with the size of an error's text (0: none), `bytes` bytes, and the text if any
    give_up,  ///< no more answers by devices; those under way have ended
    dismiss,  ///< no more reads; `bytes` of an error's text follow, with the tag of dismissals
  } kind;
  std::uint32_t slot, file;
  std::uint64_t byte_offset, bytes;

  static constexpr std::size_t kBytes = 28;
  std::array<std::byte, kBytes> encode() const;
  static ReadMessage decode(std::span<const std::byte> bytes);
};

Bytes encode_error(const Error& error);
Error decode_error(std::span<const std::byte> bytes);

}  // namespace cairn
