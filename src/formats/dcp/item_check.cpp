// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/item_check.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/fail.hpp"
#include "formats/torch_file/archive_content.hpp"
#include "formats/torch_file/tensor_value.hpp"

namespace cairn::dcp {
namespace {

// What cannot be read is no proof of anything, even if another program reads it.
template <class Body>
void report_failure(torch_file::Findings& findings, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt && error.kind() != ErrorKind::unsupported) throw;
    findings.add(FaultKind::pickle, 0, error.message());
  }
}

void compare(const ChunkClaim& claim, const torch_file::StoredTensor& tensor,
             torch_file::Findings& findings) {
  if (tensor.dtype != claim.dtype) {
    findings.add(
        FaultKind::dtype, 0,
        fmt::format("the item has dtype {}, {} expected", info(tensor.dtype).name, info(claim.dtype).name));
  }
  if (!std::ranges::equal(tensor.shape, claim.box.sizes)) {
    findings.add(FaultKind::shape, 0,
                 fmt::format("the item has shape {}, {} expected", to_string(tensor.shape),
                             to_string(claim.box.sizes)));
  }
}

}  // namespace

bool is_archive(std::uint64_t base, std::uint64_t bytes, SequentialReader& reader) {
  constexpr std::uint64_t kLeast = 22;
  if (bytes < kLeast) return false;
  std::array<char, 4> head, tail;
  reader.peek(base, std::as_writable_bytes(std::span(head)));
  reader.peek(base + bytes - kLeast, std::as_writable_bytes(std::span(tail)));
  return std::memcmp(head.data(), "PK\3\4", 4) == 0 || std::memcmp(tail.data(), "PK\5\6", 4) == 0;
}

void check_chunk(const ChunkClaim& claim, const torch_file::ArchiveIndex& index, std::uint64_t base,
                 SequentialReader& reader, torch_file::Findings& findings) {
  report_failure(findings, [&] {
    torch_file::check_byte_order(index, base, reader);
    pickle::Arena arena;
    const auto root = torch_file::check_content(arena, index, base, reader);
    if (!root) return;
    const auto tensor = torch_file::decode_tensor(arena, *root);
    if (!tensor) fail_corrupt("the item holds no tensor");
    compare(claim, *tensor, findings);
  });
}

void check_object(const torch_file::ArchiveIndex& index, std::uint64_t base, SequentialReader& reader,
                  torch_file::Findings& findings) {
  report_failure(findings, [&] {
    torch_file::check_byte_order(index, base, reader);
    pickle::Arena arena;
    torch_file::check_content(arena, index, base, reader);
  });
}

}  // namespace cairn::dcp
