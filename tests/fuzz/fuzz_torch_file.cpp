// SPDX-License-Identifier: BSD-3-Clause
// An archive from any bytes, proven as verify does it: in one go and in slices, with one result.
#include <algorithm>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "base/crc32.hpp"
#include "cairn/error.hpp"
#include "formats/dcp/item_check.hpp"
#include "formats/torch_file/archive_check.hpp"
#include "memory_file.hpp"

namespace {

using namespace cairn;
using torch_file::Findings;

// `slice` bytes at a time; parts are put together.
Findings check(const std::shared_ptr<File>& file, const torch_file::ArchiveIndex& index,
               std::uint64_t slice) {
  Findings found;
  SequentialReader reader(200);  // small: views that cross it must work too
  for (std::uint64_t at = 0; at < index.size(); at += slice) {
    const auto end = std::min(at + slice, index.size());
    reader.start(file, end);
    torch_file::check_slice(index, 0, at, end, reader, found);
  }
  const auto parts = std::exchange(found.parts, {});
  for (std::size_t i = 0; i < parts.size();) {
    const auto& first = parts[i];
    std::uint32_t crc = 0;
    std::uint64_t bytes = 0;
    for (; i < parts.size() && parts[i].payload_offset == first.payload_offset; ++i) {
      crc = crc32_combine(crc, parts[i].crc, parts[i].bytes);
      bytes += parts[i].bytes;
    }
    if (bytes != first.record_bytes) std::abort();
    torch_file::compare_crc(first.record, first.payload_offset, bytes, first.stored_crc, crc, found);
  }
  std::ranges::sort(found.damages, {}, [](const torch_file::Damage& one) {
    return std::tuple(one.byte_offset, one.kind, std::string_view(one.message));
  });
  return found;
}

bool same(const Findings& a, const Findings& b) {
  return a.checked_bytes == b.checked_bytes &&
         std::ranges::equal(a.damages, b.damages, [](const auto& one, const auto& other) {
           return one.byte_offset == other.byte_offset && one.message == other.message;
         });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = std::make_shared<Memory>(std::span(data, size));
  SequentialReader reader(64 << 10);
  reader.start(file, size);
  dcp::is_archive(0, size, reader);
  torch_file::ArchiveIndex index;
  try {
    index.read([&](std::uint64_t at, std::span<std::byte> into) { file->read(at, into); }, size);
  } catch (const Error&) {
    return 0;
  }
  const auto whole = check(file, index, size);
  for (const std::uint64_t slice : {7, 64, 1000}) {
    if (size / slice < 2000 && !same(check(file, index, slice), whole)) std::abort();
  }
  Findings content;
  dcp::check_object(index, 0, reader, content);
  const std::int64_t shape[] = {2, 3}, offsets[] = {0, 0};
  dcp::check_chunk({DType::float32, {offsets, shape}}, index, 0, reader, content);
  return 0;
}
