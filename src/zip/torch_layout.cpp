// SPDX-License-Identifier: BSD-3-Clause
#include "zip/torch_layout.hpp"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/fail.hpp"
#include "zip/records.hpp"

namespace cairn::zip {
namespace {

constexpr std::uint16_t kUtf8Flag = 0x0800;
constexpr std::uint16_t kDescriptorFlag = 0x0008;
constexpr std::uint16_t kPadField = 0x4246;  // "FB"
constexpr std::size_t kFieldHeadBytes = 4;

bool wide(std::uint64_t value) { return value >= kMax32; }
std::uint32_t narrow(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, kMax32));
}

// Both sizes or none, then the header's offset: as long in local headers as in the directory.
std::size_t zip64_body_bytes(std::uint64_t size, std::uint64_t header_offset) {
  return (wide(size) ? 16U : 0U) + (wide(header_offset) ? 8U : 0U);
}
std::size_t zip64_bytes(std::uint64_t size, std::uint64_t header_offset) {
  const std::size_t body = zip64_body_bytes(size, header_offset);
  return body == 0 ? 0 : kFieldHeadBytes + body;
}

std::uint16_t flags_of(const RecordPlace& place) {
  return place.size == 0 ? kUtf8Flag : kUtf8Flag | kDescriptorFlag;
}

// miniz writes the local header before it knows the compressed size: 0 there.
void write_zip64_field(const RecordPlace& place, std::uint64_t compressed_size, ByteWriter& out) {
  const std::size_t body = zip64_body_bytes(place.size, place.header_offset);
  if (body == 0) return;
  out.write(kZip64Field);
  out.write(static_cast<std::uint16_t>(body));
  if (wide(place.size)) {
    out.write(place.size);
    out.write(compressed_size);
  }
  if (wide(place.header_offset)) out.write(place.header_offset);
}

void write_zeros(std::size_t count, ByteWriter& out) { out.fill(std::byte{0}, count); }

std::uint64_t combine(std::uint64_t seed, std::uint64_t value) {
  return seed ^ (value + 0x9e3779b9 + (seed << 6) + (seed >> 2));
}

}  // namespace

RecordPlace place_record(std::size_t name_length, std::uint64_t size, std::uint64_t header_offset,
                         std::uint32_t alignment) {
  if (!std::has_single_bit(alignment) || alignment < 64 || alignment > 32768) {
    fail(ErrorKind::invalid_argument, "alignment {}: a power of two from 64 to 32768 expected", alignment);
  }
  if (name_length > kMax16) {
    fail(ErrorKind::invalid_argument, "record name of {} bytes: at most {} fit a zip", name_length, kMax16);
  }
  const std::uint64_t extra = zip64_bytes(size, header_offset);
  const std::uint64_t start = header_offset + kLocalBytes + name_length + extra + kFieldHeadBytes;
  const std::uint64_t mask = alignment - 1;
  return {.header_offset = header_offset,
          .payload_offset = (start + mask) & ~mask,
          .size = size,
          .descriptor_bytes = size == 0    ? 0U
                              : extra == 0 ? 16U
                                           : 24U};
}

void write_local_header(std::string_view name, const RecordPlace& place, ByteWriter& out) {
  const std::uint64_t extra = place.payload_offset - place.header_offset - kLocalBytes - name.size();
  const std::uint64_t pad = extra - zip64_bytes(place.size, place.header_offset) - kFieldHeadBytes;
  out.write(kLocalSignature);
  out.write(std::uint16_t{0});
  out.write(flags_of(place));
  write_zeros(18, out);
  out.write(static_cast<std::uint16_t>(name.size()));
  out.write(static_cast<std::uint16_t>(extra));
  out.text(name);
  write_zip64_field(place, 0, out);
  out.write(kPadField);
  out.write(static_cast<std::uint16_t>(pad));
  out.fill(std::byte{'Z'}, pad);
}

void write_descriptor(const RecordPlace& place, std::uint32_t crc, ByteWriter& out) {
  if (place.descriptor_bytes == 0) return;
  out.write(kDescriptorSignature);
  out.write(crc);
  for (int both = 0; both < 2; ++both) {
    if (place.descriptor_bytes == 24) {
      out.write(place.size);
    } else {
      out.write(static_cast<std::uint32_t>(place.size));
    }
  }
}

std::uint64_t central_entry_bytes(std::size_t name_length, const RecordPlace& place) {
  return kCentralBytes + name_length + zip64_bytes(place.size, place.header_offset);
}

void write_central_entry(std::string_view name, const RecordPlace& place, std::uint32_t crc,
                         ByteWriter& out) {
  out.write(kCentralSignature);
  write_zeros(4, out);
  out.write(flags_of(place));
  write_zeros(6, out);
  out.write(crc);
  out.write(narrow(place.size));
  out.write(narrow(place.size));
  out.write(static_cast<std::uint16_t>(name.size()));
  out.write(static_cast<std::uint16_t>(zip64_bytes(place.size, place.header_offset)));
  write_zeros(10, out);
  out.write(narrow(place.header_offset));
  out.text(name);
  write_zip64_field(place, place.size, out);
}

void write_end(std::uint64_t directory_offset, std::uint64_t directory_size, std::uint64_t entry_count,
               ByteWriter& out) {
  out.write(kZip64EndSignature);
  out.write(std::uint64_t{kZip64EndBytes - 12});
  out.write(std::uint16_t{798});  // made by, needed: as miniz writes them
  out.write(std::uint16_t{45});
  write_zeros(8, out);
  out.write(entry_count);
  out.write(entry_count);
  out.write(directory_size);
  out.write(directory_offset);

  out.write(kZip64LocatorSignature);
  write_zeros(4, out);
  out.write(directory_offset + directory_size);
  out.write(std::uint32_t{1});

  const auto count = static_cast<std::uint16_t>(std::min<std::uint64_t>(entry_count, kMax16));
  out.write(kEndSignature);
  write_zeros(4, out);
  out.write(count);
  out.write(count);
  out.write(narrow(directory_size));
  out.write(narrow(directory_offset));
  write_zeros(2, out);
}

std::uint64_t add_to_crcs(std::uint64_t crcs, std::uint32_t crc) { return combine(crcs, crc); }

void SerializationId::add(std::string_view record_name, std::uint32_t crc, std::uint64_t size) {
  names_.insert({std::hash<std::string_view>{}(record_name), names_.size()});
  if (size > 0) crcs_ = add_to_crcs(crcs_, crc);
}

std::string SerializationId::digits() const {
  std::uint64_t names = 0;
  for (const Name& name : names_) names = combine(names, name.hash);
  return fmt::format("{:020}{:020}", names, crcs_);
}

std::string archive_name(std::string_view path) {
  if (std::any_of(path.begin(), path.end(), [](char c) { return (c & 0x80) != 0; })) return "archive";
  const std::size_t separator = path.find_last_of("/\\");
  const std::string_view file = separator == std::string_view::npos ? path : path.substr(separator + 1);
  const std::string_view stem = file.substr(0, file.rfind('.'));
  return stem.empty() ? "archive" : std::string(stem);
}

}  // namespace cairn::zip
