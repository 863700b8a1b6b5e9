// SPDX-License-Identifier: BSD-3-Clause
#include "engine/read_messages.hpp"

#include <algorithm>
#include <string>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"

namespace cairn {

std::array<std::byte, ReadMessage::kBytes> ReadMessage::encode() const {
  ByteWriter out;
  out.write(static_cast<std::uint32_t>(kind));
  out.write(slot);
  out.write(file);
  out.write(byte_offset);
  out.write(bytes);
  std::array<std::byte, kBytes> wire;
  std::ranges::copy(out.view(), wire.begin());
  return wire;
}

ReadMessage ReadMessage::decode(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "request to read");
  const auto kind = static_cast<Kind>(in.read<std::uint32_t>());
  const auto slot = in.read<std::uint32_t>(), file = in.read<std::uint32_t>();
  const auto byte_offset = in.read<std::uint64_t>();
  return {kind, slot, file, byte_offset, in.read<std::uint64_t>()};
}

Bytes encode_error(const Error& error) {
  ByteWriter out;
  out.write(static_cast<std::uint8_t>(error.kind()));
  out.counted_text(error.message());
  out.text(error.hint());
  return out.take();
}

Error decode_error(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "error of a rank");
  const auto kind = static_cast<ErrorKind>(in.read<std::uint8_t>());
  std::string message(in.counted_text());
  return {kind, std::move(message), std::string(in.text(in.remaining()))};
}

}  // namespace cairn
