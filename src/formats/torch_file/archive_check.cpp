// SPDX-License-Identifier: BSD-3-Clause
#include "formats/torch_file/archive_check.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/byte_writer.hpp"
#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "zip/records.hpp"

namespace cairn::torch_file {
namespace {

using zip::Entry;
using zip::load;

constexpr std::uint16_t kDescriptorFlag = 0x0008, kEncryptedFlags = 0x2041;
constexpr std::uint16_t kPadField = 0x4246;  // "FB"
constexpr std::uint64_t kDescriptorBytes = 16, kWideDescriptorBytes = 24;

bool has_descriptor(const Entry& entry) { return (entry.flags & kDescriptorFlag) != 0; }

std::uint32_t plain_field(std::uint64_t value) {
  return value < zip::kMax32 ? static_cast<std::uint32_t>(value) : zip::kMax32;
}

class SliceCheck {
 public:
  SliceCheck(const ArchiveIndex& index, std::uint64_t base, std::uint64_t begin, std::uint64_t end,
             SequentialReader& reader, Findings& findings)
      : index_(index), base_(base), begin_(begin), end_(end), reader_(reader), findings_(findings) {}

  void run() {
    if (begin_ == 0) check_ends();
    for (std::size_t i = index_.first_beyond(begin_); i < index_.record_count(); ++i) {
      if (index_.record(i).header_offset >= end_) break;
      check_record(index_.record(i), index_.end_of(i));
    }
  }

 private:
  void check_ends() {
    const zip::Directory& directory = index_.directory();
    if (const auto first = index_.record(0).header_offset; first != 0) {
      header(0, "{} bytes before the first zip record", first);
    }
    const std::uint64_t directory_end = directory.byte_offset + directory.byte_size;
    if (directory_end != directory.end_offset) {
      header(directory_end, "the zip directory ends at byte {}, its end record begins at byte {}",
             directory_end, directory.end_offset);
    }
    const std::uint64_t rest = index_.size() - directory.end_offset;
    constexpr auto plain = zip::kEndBytes, wide = plain + zip::kZip64EndBytes + zip::kZip64LocatorBytes;
    if (rest != plain && rest != wide) {
      header(directory.end_offset, "end records of {} bytes, {} or {} expected: a comment", rest, plain,
             wide);
    }
  }

  // Up to `next` reaches what belongs to this record.
  void check_record(const Entry& entry, std::uint64_t next) {
    const auto payload = entry.header_offset >= begin_ ? check_head(entry, next) : find_payload(entry, next);
    if (!payload) return;
    check_payload(entry, *payload);
    if (next <= end_) check_tail(entry, *payload + entry.size, next);
  }

  // Of a record that begins in an earlier slice, whose owner reports what is wrong.
  std::optional<std::uint64_t> find_payload(const Entry& entry, std::uint64_t next) {
    std::array<std::byte, zip::kLocalBytes> fixed;
    reader_.peek(base_ + entry.header_offset, fixed);
    if (load<std::uint32_t>(fixed.data()) != zip::kLocalSignature) return {};
    return payload_of(entry, fixed.data(), next);
  }

  std::optional<std::uint64_t> payload_of(const Entry& entry, const std::byte* fixed,
                                          std::uint64_t next) const {
    const std::uint64_t payload = entry.header_offset + zip::kLocalBytes + load<std::uint16_t>(fixed + 26) +
                                  load<std::uint16_t>(fixed + 28);
    const bool stored = entry.method == 0 && entry.size == entry.compressed_size;
    if (!stored || payload > next || entry.size > next - payload) return {};
    return payload;
  }

  std::optional<std::uint64_t> check_head(const Entry& entry, std::uint64_t next) {
    const std::uint64_t at = entry.header_offset;
    const std::byte* fixed = reader_.view(base_ + at, zip::kLocalBytes).data();
    if (const auto found = load<std::uint32_t>(fixed); found != zip::kLocalSignature) {
      header(at, "the header of zip record '{}': signature {:#010x} expected, {:#010x} found",
             escape_name(entry.name), zip::kLocalSignature, found);
      return {};
    }
    const auto payload = payload_of(entry, fixed, next);
    if (!payload) {
      report_unusable(entry, next);
      return {};
    }
    const auto whole = reader_.view(base_ + at, static_cast<std::size_t>(*payload - at));
    check_fields(entry, whole);
    if (*payload % index_.alignment() != 0) {
      header(at, "the payload of zip record '{}' at byte {} is not aligned to {} as .storage_alignment says",
             escape_name(entry.name), *payload, index_.alignment());
    }
    return payload;
  }

  void report_unusable(const Entry& entry, std::uint64_t next) {
    const auto name = escape_name(entry.name);
    if (entry.method != 0) {
      header(entry.header_offset, "zip record '{}' is compressed (method {}), which Cairn does not read",
             name, entry.method);
    } else if (entry.size != entry.compressed_size) {
      header(entry.header_offset, "stored zip record '{}' has {} bytes and takes {}", name, entry.size,
             entry.compressed_size);
    } else {
      header(entry.header_offset, "zip record '{}' of {} bytes passes byte {}, where the next one begins",
             name, entry.size, next);
    }
  }

  // `whole` is the local header with name and extra fields.
  void check_fields(const Entry& entry, std::span<const std::byte> whole) {
    const std::byte* fixed = whole.data();
    const auto differ = [&](std::string_view what, std::uint64_t expected, std::uint64_t found) {
      header(entry.header_offset, "the header of zip record '{}' has {} {:#x}, {:#x} expected",
             escape_name(entry.name), what, found, expected);
    };
    const auto flags = load<std::uint16_t>(fixed + 6), method = load<std::uint16_t>(fixed + 8);
    const auto crc = load<std::uint32_t>(fixed + 14);
    const auto compressed = load<std::uint32_t>(fixed + 18), size = load<std::uint32_t>(fixed + 22);
    const std::uint32_t usual = plain_field(entry.size);
    const auto deferred = [&](std::uint32_t value) { return has_descriptor(entry) && value == 0; };
    const auto name = as_text(whole.subspan(zip::kLocalBytes, load<std::uint16_t>(fixed + 26)));
    if (name != entry.name) {
      header(entry.header_offset, "the header of zip record '{}' has the name '{}'", escape_name(entry.name),
             escape_name(name));
    } else if (flags != entry.flags) {
      differ("flags", entry.flags, flags);
    } else if ((flags & kEncryptedFlags) != 0) {
      header(entry.header_offset, "zip record '{}' is encrypted, which Cairn does not read",
             escape_name(name));
    } else if (method != entry.method) {
      differ("method", entry.method, method);
    } else if (crc != entry.crc && !deferred(crc)) {
      differ("CRC-32", entry.crc, crc);
    } else if (compressed != usual && compressed != zip::kMax32 && !deferred(compressed)) {
      differ("compressed size", usual, compressed);
    } else if (size != usual && size != zip::kMax32 && !deferred(size)) {
      differ("size", usual, size);
    } else {
      check_extra(entry, whole.subspan(zip::kLocalBytes + name.size()));
    }
  }

  // Fields are (id, length, bytes). Those of other writers are not judged, unless it is a pad with another
  // id.
  void check_extra(const Entry& entry, std::span<const std::byte> extra) {
    const auto report = [&](std::string_view text) {
      header(entry.header_offset, "{} of zip record '{}'", text, escape_name(entry.name));
    };
    while (extra.size() >= 4) {
      const auto id = load<std::uint16_t>(extra.data()), length = load<std::uint16_t>(extra.data() + 2);
      if (length > extra.size() - 4) break;
      const auto body = extra.subspan(4, length);
      const bool all_z = std::ranges::all_of(body, [](std::byte b) { return b == std::byte{'Z'}; });
      if (id == kPadField && !all_z) report("bytes other than 'Z' in the pad");
      if (id == zip::kZip64Field && !is_zip64(entry, body)) {
        report("values other than those of the directory in the zip64 field");
      }
      if (id != kPadField && id != zip::kZip64Field && all_z && length > 0)
        report("an unknown id of the pad");
      extra = extra.subspan(4 + std::size_t{length});
    }
    if (!extra.empty()) report("an extra field that is cut off in the header");
  }

  // The standard writes both sizes; torch (size, 0), or the header's offset.
  static bool is_zip64(const Entry& entry, std::span<const std::byte> body) {
    if (body.size() % 8 != 0) return false;
    for (; !body.empty(); body = body.subspan(8)) {
      const auto value = load<std::uint64_t>(body.data());
      if (value != 0 && value != entry.size && value != entry.header_offset) return false;
    }
    return true;
  }

  // Bytes without a CRC are read too: a disk that cannot give them is no proof of anything.
  void check_payload(const Entry& entry, std::uint64_t payload) {
    const std::uint64_t from = std::max(payload, begin_), to = std::min(payload + entry.size, end_);
    if (from >= to) return;
    std::uint32_t crc = 0;
    for (std::uint64_t at = from; at < to;) {
      const auto bytes = reader_.some(base_ + at, to - at);
      crc = crc32(bytes, crc);
      at += bytes.size();
    }
    if (entry.crc == 0) return;
    if (to - from == entry.size) {
      compare_crc(entry.name, payload, entry.size, entry.crc, crc, findings_);
    } else {
      findings_.parts.push_back(
          {std::string(entry.name), payload, entry.size, entry.crc, from - payload, to - from, crc});
    }
  }

  void check_tail(const Entry& entry, std::uint64_t at, std::uint64_t next) {
    const std::uint64_t gap = next - at;
    if (!has_descriptor(entry)) {
      if (gap != 0) header(at, "{} bytes after zip record '{}' belong to none", gap, escape_name(entry.name));
      return;
    }
    if (gap != kDescriptorBytes && gap != kWideDescriptorBytes) {
      header(at, "zip record '{}' is followed by {} bytes, a descriptor of {} or {} expected",
             escape_name(entry.name), gap, kDescriptorBytes, kWideDescriptorBytes);
      return;
    }
    const std::byte* bytes = reader_.view(base_ + at, static_cast<std::size_t>(gap)).data();
    const bool wide = gap == kWideDescriptorBytes;
    const auto number = [&](std::size_t i) {
      return wide ? load<std::uint64_t>(bytes + 8 + 8 * i) : load<std::uint32_t>(bytes + 8 + 4 * i);
    };
    const auto signature = load<std::uint32_t>(bytes), crc = load<std::uint32_t>(bytes + 4);
    if (signature == zip::kDescriptorSignature && crc == entry.crc && number(0) == entry.size &&
        number(1) == entry.size) {
      return;
    }
    header(at,
           "the descriptor of zip record '{}' is {:#010x}, CRC-32 {:08x}, {} and {} bytes; {:#010x}, {:08x}, "
           "{} and "
           "{} expected",
           escape_name(entry.name), signature, crc, number(0), number(1), zip::kDescriptorSignature,
           entry.crc, entry.size, entry.size);
  }

  template <class... Args>
  void header(std::uint64_t at, fmt::format_string<Args...> text, Args&&... args) {
    findings_.add(FaultKind::header, at, fmt::format(text, std::forward<Args>(args)...));
  }

  const ArchiveIndex& index_;
  const std::uint64_t base_, begin_, end_;
  SequentialReader& reader_;
  Findings& findings_;
};

}  // namespace

void Findings::add(FaultKind kind, std::uint64_t byte_offset, std::string message) {
  ++damage_count;
  if (damages.size() < kMostDamages) damages.push_back({kind, byte_offset, std::move(message)});
}

void check_slice(const ArchiveIndex& index, std::uint64_t base, std::uint64_t begin, std::uint64_t end,
                 SequentialReader& reader, Findings& findings) {
  SliceCheck(index, base, begin, end, reader, findings).run();
}

std::uint64_t payload_begin(const zip::Entry& entry, std::uint64_t base, SequentialReader& reader) {
  std::array<std::byte, zip::kLocalBytes> fixed;
  reader.peek(base + entry.header_offset, fixed);
  return entry.header_offset + zip::kLocalBytes + load<std::uint16_t>(fixed.data() + 26) +
         load<std::uint16_t>(fixed.data() + 28);
}

void compare_crc(std::string_view record, std::uint64_t payload_offset, std::uint64_t record_bytes,
                 std::uint32_t stored_crc, std::uint32_t crc, Findings& findings) {
  findings.checked_bytes += record_bytes;
  if (crc == stored_crc) return;
  findings.add(FaultKind::crc, payload_offset,
               fmt::format("zip record '{}' of {} bytes has CRC-32 {:08x}, {:08x} expected",
                           escape_name(record), record_bytes, crc, stored_crc));
}

}  // namespace cairn::torch_file
