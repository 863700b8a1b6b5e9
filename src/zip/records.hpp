// SPDX-License-Identifier: BSD-3-Clause
// Numbers of the zip format that reading and writing share (APPNOTE 4.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cairn::zip {

inline constexpr std::uint32_t kLocalSignature = 0x04034b50;
inline constexpr std::uint32_t kDescriptorSignature = 0x08074b50;
inline constexpr std::uint32_t kCentralSignature = 0x02014b50;
inline constexpr std::uint32_t kEndSignature = 0x06054b50;
inline constexpr std::uint32_t kZip64EndSignature = 0x06064b50;
inline constexpr std::uint32_t kZip64LocatorSignature = 0x07064b50;

// Fixed parts, in bytes.
inline constexpr std::size_t kLocalBytes = 30;
inline constexpr std::size_t kCentralBytes = 46;
inline constexpr std::size_t kEndBytes = 22;
inline constexpr std::size_t kZip64EndBytes = 56;
inline constexpr std::size_t kZip64LocatorBytes = 20;

// Where the CRC-32 stands in a central entry and in a descriptor.
inline constexpr std::size_t kCentralCrc = 16;
inline constexpr std::size_t kDescriptorCrc = 4;

// A field that holds this maximum has its value in a zip64 field.
inline constexpr std::uint16_t kMax16 = 0xffff;
inline constexpr std::uint32_t kMax32 = 0xffffffff;

inline constexpr std::uint16_t kZip64Field = 0x0001;

/// Little-endian value at `at`, which the caller has checked to be in bounds.
template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

}  // namespace cairn::zip
