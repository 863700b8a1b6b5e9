// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/consolidation_plan.hpp"

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/keyed_hash.hpp"

namespace cairn {
namespace {

void write_content(ByteWriter& out, const RecordContent& content) {
  out.write<std::uint8_t>(content.is_tensor ? 1 : 0);
  out.write(static_cast<std::uint8_t>(content.dtype));
  out.write(content.tensor);
  out.write(content.file);
  out.write(content.byte_offset);
  out.write(content.bytes);
}

RecordContent read_content(ByteReader& in) {
  RecordContent content;
  content.is_tensor = in.read<std::uint8_t>() != 0;
  content.dtype = static_cast<DType>(in.read<std::uint8_t>());
  content.tensor = in.read<std::uint32_t>();
  content.file = in.read<std::uint32_t>();
  content.byte_offset = in.read<std::uint64_t>();
  content.bytes = in.read<std::uint64_t>();
  return content;
}

void write_contents(ByteWriter& out, const std::vector<RecordContent>& contents) {
  out.write<std::uint64_t>(contents.size());
  for (const RecordContent& content : contents) write_content(out, content);
}

std::vector<RecordContent> read_contents(ByteReader& in) {
  std::vector<RecordContent> contents;
  for (auto left = in.read<std::uint64_t>(); left > 0; --left) contents.push_back(read_content(in));
  return contents;
}

void write_layout(ByteWriter& out, const OutputPlan& plan) {
  out.counted_text(plan.archive_name);
  out.write(plan.alignment);
  out.write(plan.pickle_bytes);
  write_contents(out, plan.contents);
}

void write_output(ByteWriter& out, const OutputPlan& plan) {
  out.counted_text(plan.temporary_path);
  write_layout(out, plan);
}

OutputPlan read_output(ByteReader& in) {
  OutputPlan plan;
  plan.temporary_path = std::string(in.counted_text());
  plan.archive_name = std::string(in.counted_text());
  plan.alignment = in.read<std::uint32_t>();
  plan.pickle_bytes = in.read<std::uint64_t>();
  plan.contents = read_contents(in);
  return plan;
}

void write_shard_contents(ByteWriter& out, const ShardPlan& plan) {
  for (const std::uint32_t tensor : plan.tensors) out.write(tensor);
  for (const auto& object : plan.objects) {
    out.counted_text(as_text(object.pickle));
    write_contents(out, object.storages);
  }
}

void write_shards(ByteWriter& out, const ShardPlan& plan) {
  out.counted_text(plan.directory);
  const auto catalog = plan.catalog.encode();
  out.counted_text(as_text(catalog));
  write_shard_contents(out, plan);
}

std::unique_ptr<ShardPlan> read_shards(ByteReader& in) {
  auto plan = std::make_unique<ShardPlan>();
  plan->directory = std::string(in.counted_text());
  plan->catalog = Catalog::decode(as_bytes(in.counted_text()));
  for (std::size_t i = 0; i < plan->catalog.tensors().size(); ++i)
    plan->tensors.push_back(in.read<std::uint32_t>());
  for (std::size_t i = 0; i < plan->catalog.objects().size(); ++i) {
    const auto pickle = as_bytes(in.counted_text());
    plan->objects.push_back({{pickle.begin(), pickle.end()}, read_contents(in)});
  }
  return plan;
}

void write_tensor_files(ByteWriter& out, const TensorFilesPlan& plan) {
  out.write<std::uint64_t>(plan.files.size());
  for (const auto& [path, header_bytes, records] : plan.files) {
    out.counted_text(path);
    out.write(header_bytes);
    out.write(records);
  }
  write_contents(out, plan.contents);
}

std::unique_ptr<TensorFilesPlan> read_tensor_files(ByteReader& in) {
  auto plan = std::make_unique<TensorFilesPlan>();
  for (auto left = in.read<std::uint64_t>(); left > 0; --left) {
    std::string path(in.counted_text());
    const auto header_bytes = in.read<std::uint64_t>();
    plan->files.push_back({std::move(path), header_bytes, in.read<std::uint64_t>()});
  }
  plan->contents = read_contents(in);
  return plan;
}

}  // namespace

std::vector<std::uint64_t> record_bytes(const std::vector<RecordContent>& contents) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(contents.size());
  for (const RecordContent& content : contents) sizes.push_back(content.bytes);
  return sizes;
}

torch_file::Layout OutputPlan::layout() const {
  return {archive_name, pickle_bytes, record_bytes(contents), alignment};
}

std::uint64_t ConsolidationPlan::hash() const {
  std::uint64_t sum = 0;
  for (const OutputPlan& output : outputs) {
    ByteWriter out;
    write_layout(out, output);
    sum = stable_hash(out.view(), sum);
  }
  if (shards) {
    ByteWriter out;
    write_shard_contents(out, *shards);
    sum = stable_hash(out.view(), sum);
  }
  if (tensor_files) {
    ByteWriter out;
    write_contents(out, tensor_files->contents);
    sum = stable_hash(out.view(), sum);
  }
  return sum;
}

std::vector<std::byte> ConsolidationPlan::encode(std::span<const std::byte> source) const {
  ByteWriter out;
  out.write(static_cast<std::uint8_t>(source_kind));
  out.counted_text(directory);
  out.write<std::uint8_t>(is_complete ? 1 : 0);
  out.write<std::uint64_t>(finished.size());
  for (const auto& [begin, end] : finished) {
    out.write(begin);
    out.write(end);
  }
  out.write<std::uint64_t>(outputs.size());
  for (const OutputPlan& output : outputs) write_output(out, output);
  out.write<std::uint8_t>(shards ? 1 : 0);
  if (shards) write_shards(out, *shards);
  out.write<std::uint8_t>(tensor_files ? 1 : 0);
  if (tensor_files) write_tensor_files(out, *tensor_files);
  out.append(source);
  return out.take();
}

ConsolidationPlan ConsolidationPlan::decode(std::span<const std::byte> bytes,
                                            std::span<const std::byte>& source) {
  ByteReader in(bytes, "consolidation plan");
  ConsolidationPlan plan;
  plan.source_kind = static_cast<SourceKind>(in.read<std::uint8_t>());
  plan.directory = std::string(in.counted_text());
  plan.is_complete = in.read<std::uint8_t>() != 0;
  for (auto left = in.read<std::uint64_t>(); left > 0; --left) {
    const auto begin = in.read<std::uint64_t>();
    plan.finished.push_back({begin, in.read<std::uint64_t>()});
  }
  for (auto left = in.read<std::uint64_t>(); left > 0; --left) plan.outputs.push_back(read_output(in));
  if (in.read<std::uint8_t>() != 0) plan.shards = read_shards(in);
  if (in.read<std::uint8_t>() != 0) plan.tensor_files = read_tensor_files(in);
  source = in.bytes(in.remaining());
  return plan;
}

}  // namespace cairn
