// SPDX-License-Identifier: BSD-3-Clause
#include "formats/torch_file/layout.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>

#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "formats/torch_file/records.hpp"

namespace cairn::torch_file {
namespace {

constexpr std::size_t kTailPiece = 1 << 20;
constexpr std::uint64_t kMaxPayload = std::uint64_t{1} << 62;  // no file is longer; offsets cannot wrap

void append_record(std::string_view full_name, const zip::RecordPlace& place,
                   std::span<const std::byte> content, ByteWriter& out) {
  zip::write_local_header(full_name, place, out);
  out.append(content);
  zip::write_descriptor(place, crc32(content), out);
}

}  // namespace

Layout::Layout(std::string archive_name, std::uint64_t pickle_bytes, std::vector<std::uint64_t> storage_bytes,
               std::uint32_t alignment)
    : archive_name_(std::move(archive_name)),
      storage_prefix_(full_name("data/")),
      pickle_bytes_(pickle_bytes),
      sizes_(std::move(storage_bytes)),
      alignment_(alignment) {
  std::uint64_t room = kMaxPayload;
  for (const std::uint64_t size : sizes_) {
    if (size > room) fail(ErrorKind::unsupported, "the output would have more than {} bytes", kMaxPayload);
    room -= size;
  }
  std::uint64_t at = place(kPickleRecord, pickle_bytes_, 0).end();
  for (const auto& record : head_records(alignment_))
    at = place(record.name, record.content.size(), at).end();
  starts_.reserve(sizes_.size() + 1);
  std::uint64_t directory = 0;
  for (std::uint64_t i = 0; i < sizes_.size(); ++i) {
    starts_.push_back(at);
    const auto here = storage_place(i);
    directory += zip::central_entry_bytes(storage_name_length(i), here);
    at = here.end();
  }
  starts_.push_back(at);

  const auto entry = [&](std::string_view name, const zip::RecordPlace& here) {
    directory += zip::central_entry_bytes(full_name(name).size(), here);
    return here.end();
  };
  std::uint64_t head_at = entry(kPickleRecord, place(kPickleRecord, pickle_bytes_, 0));
  for (const auto& record : head_records(alignment_)) {
    head_at = entry(record.name, place(record.name, record.content.size(), head_at));
  }
  at = entry(kVersionRecord, place(kVersionRecord, kVersion.size(), at));
  at = entry(kIdRecord, place(kIdRecord, kIdDigits, at));
  file_size_ = at + directory + zip::kEndRecordsBytes;
}

const std::string& Layout::storage_name(std::uint64_t record, std::string& name) const {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), record).ptr;
  name.assign(storage_prefix_).append(digits.data(), static_cast<std::size_t>(end - digits.data()));
  return name;
}

std::size_t Layout::storage_name_length(std::uint64_t record) const {
  std::size_t digits = 1;
  for (; record >= 10; record /= 10) ++digits;
  return storage_prefix_.size() + digits;
}

zip::RecordPlace Layout::place(std::string_view record, std::uint64_t size, std::uint64_t at) const {
  return zip::place_record(archive_name_.size() + 1 + record.size(), size, at, alignment_);
}

zip::RecordPlace Layout::storage_place(std::uint64_t record) const {
  return zip::place_record(storage_name_length(record), sizes_[record], starts_[record], alignment_);
}

ByteRange Layout::payload(std::uint64_t record) const {
  const auto here = storage_place(record);
  return {here.payload_offset, here.descriptor_offset()};
}

void Layout::write_front(std::uint64_t record, std::span<std::byte> into) const {
  ByteWriter out;
  std::string name;
  zip::write_local_header(storage_name(record, name), storage_place(record), out);
  assert(out.size() == into.size());
  std::ranges::copy(out.view(), into.begin());
}

void Layout::write_back(std::uint64_t record, std::uint32_t crc, std::span<std::byte> into) const {
  ByteWriter out;
  zip::write_descriptor(storage_place(record), crc, out);
  assert(out.size() == into.size());
  std::ranges::copy(out.view(), into.begin());
}

Bytes Layout::head(std::span<const std::byte> pickle) const {
  assert(pickle.size() == pickle_bytes_);
  ByteWriter out;
  out.reserve(region().begin);
  append_record(full_name(kPickleRecord), place(kPickleRecord, pickle_bytes_, 0), pickle, out);
  for (const auto& record : head_records(alignment_)) {
    append_record(full_name(record.name), place(record.name, record.content.size(), out.size()),
                  as_bytes(record.content), out);
  }
  return out.take();
}

void Layout::write_tail(std::span<const std::byte> pickle, const std::vector<std::uint32_t>& crcs,
                        const std::function<void(std::span<const std::byte>)>& write) const {
  zip::SerializationId id;
  ByteWriter out, directory;
  std::uint64_t entries = 0, directory_bytes = 0;
  const auto flush = [&](std::size_t above) {
    if (directory.size() <= above) return;
    directory_bytes += directory.size();
    write(directory.view());
    directory.clear();
  };
  const auto add = [&](std::string_view full_name, const zip::RecordPlace& here, std::uint32_t crc) {
    zip::write_central_entry(full_name, here, crc, directory);
    ++entries;
  };
  std::string name;

  // the id goes over all records before it
  const auto version_place = place(kVersionRecord, kVersion.size(), starts_.back());
  const auto id_place = place(kIdRecord, kIdDigits, version_place.end());
  id.add(kPickleRecord, crc32(pickle), pickle.size());
  for (const auto& record : head_records(alignment_))
    id.add(record.name, crc32(as_bytes(record.content)), record.content.size());
  const std::size_t prefix = archive_name_.size() + 1;
  for (std::uint64_t i = 0; i < sizes_.size(); ++i)
    id.add(std::string_view(storage_name(i, name)).substr(prefix), crcs[i], sizes_[i]);
  id.add(kVersionRecord, crc32(as_bytes(kVersion)), kVersion.size());
  const std::string digits = id.digits();
  append_record(full_name(kVersionRecord), version_place, as_bytes(kVersion), out);
  append_record(full_name(kIdRecord), id_place, as_bytes(digits), out);
  write(out.view());

  auto here = place(kPickleRecord, pickle_bytes_, 0);
  add(full_name(kPickleRecord), here, crc32(pickle));
  for (const auto& record : head_records(alignment_)) {
    here = place(record.name, record.content.size(), here.end());
    add(full_name(record.name), here, crc32(as_bytes(record.content)));
  }
  for (std::uint64_t i = 0; i < sizes_.size(); ++i) {
    add(storage_name(i, name), storage_place(i), crcs[i]);
    flush(kTailPiece);
  }
  add(full_name(kVersionRecord), version_place, crc32(as_bytes(kVersion)));
  add(full_name(kIdRecord), id_place, crc32(as_bytes(digits)));
  flush(0);
  ByteWriter end;
  zip::write_end(id_place.end(), directory_bytes, entries, end);
  write(end.view());
}

}  // namespace cairn::torch_file
