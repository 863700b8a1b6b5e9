// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/consolidation_plan.hpp"

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"

namespace cairn {
namespace {

void write_text(ByteWriter& out, const std::string& text) {
  out.write<std::uint64_t>(text.size());
  out.text(text);
}

std::string read_text(ByteReader& in) { return std::string(in.text(in.read<std::uint64_t>())); }

}  // namespace

std::vector<std::uint64_t> ConsolidationPlan::record_bytes() const {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(contents.size());
  for (const RecordContent& content : contents) sizes.push_back(content.bytes);
  return sizes;
}

torch_file::Layout ConsolidationPlan::layout() const {
  return {archive_name, pickle_bytes, record_bytes(), alignment};
}

std::vector<std::byte> ConsolidationPlan::encode(const Catalog& catalog) const {
  ByteWriter out;
  write_text(out, directory);
  write_text(out, temporary_path);
  write_text(out, archive_name);
  out.write(alignment);
  out.write(pickle_bytes);
  out.write<std::uint64_t>(contents.size());
  for (const RecordContent& content : contents) {
    out.write<std::uint8_t>(content.is_tensor ? 1 : 0);
    out.write(content.tensor);
    out.write(content.file);
    out.write(content.byte_offset);
    out.write(content.bytes);
  }
  out.append(catalog.encode());
  return out.take();
}

ConsolidationPlan ConsolidationPlan::decode(std::span<const std::byte> bytes, Catalog& catalog) {
  ByteReader in(bytes, "consolidation plan");
  ConsolidationPlan plan;
  plan.directory = read_text(in);
  plan.temporary_path = read_text(in);
  plan.archive_name = read_text(in);
  plan.alignment = in.read<std::uint32_t>();
  plan.pickle_bytes = in.read<std::uint64_t>();
  const auto count = in.read<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    RecordContent content;
    content.is_tensor = in.read<std::uint8_t>() != 0;
    content.tensor = in.read<std::uint32_t>();
    content.file = in.read<std::uint32_t>();
    content.byte_offset = in.read<std::uint64_t>();
    content.bytes = in.read<std::uint64_t>();
    plan.contents.push_back(content);
  }
  catalog = Catalog::decode(in.bytes(in.remaining()));
  return plan;
}

}  // namespace cairn
