// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/load_joint.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/byte_reader.hpp"
#include "checkpoint/load_sharing.hpp"
#include "plan/compact.hpp"
#include "tensor/strided_copy.hpp"

namespace cairn {
namespace {

constexpr std::int64_t kMostOverRead = 4;

/// Visits the items that are no runs, with what they want of their chunks.
template <class Visit>
void for_each_scattered(const Source& source, const LoadPlan& plan, std::span<const ReadItem> items,
                        const Visit& visit) {
  const Catalog& catalog = source.catalog();
  for (std::uint32_t i = 0; i < items.size(); ++i) {
    const TensorInfo& tensor = catalog.tensors()[items[i].tensor];
    const BoxView stored = catalog.box(tensor, catalog.chunks()[items[i].chunk]);
    if (is_row_major(plan.overlap(catalog, items[i]).sizes, contiguous_strides(stored.sizes))) continue;
    if (!source.small_item(items[i].chunk)) visit(i, plan.in_chunk(catalog, items[i]));
  }
}

void write_box(ByteWriter& out, const Box& box) {
  write_coordinates(out, box.offsets);
  write_coordinates(out, box.sizes);
}

Box read_box(ByteReader& in, std::size_t ndim) {
  Box box{std::vector<std::int64_t>(ndim), std::vector<std::int64_t>(ndim)};
  for (auto* values : {&box.offsets, &box.sizes}) {
    for (std::int64_t& value : *values)
      value = static_cast<std::int64_t>(read_number(in, std::uint64_t{1} << 62));
  }
  return box;
}

/// A chunk without parts, and the number of its dimensions.
std::pair<JointChunk, std::size_t> read_chunk(ByteReader& in, const Catalog& catalog) {
  JointChunk chunk;
  chunk.tensor = static_cast<std::uint32_t>(read_number(in, catalog.tensors().size() - 1));
  chunk.chunk = read_number(in, catalog.chunks().size() - 1);
  return {std::move(chunk), catalog.tensors()[chunk.tensor].ndim};
}

void widen(Box& box, const Box& part) {
  for (std::size_t d = 0; d < part.sizes.size(); ++d) {
    const auto end = std::max(box.offsets[d] + box.sizes[d], part.offsets[d] + part.sizes[d]);
    box.offsets[d] = std::min(box.offsets[d], part.offsets[d]);
    box.sizes[d] = end - box.offsets[d];
  }
}

struct Wanted {
  JointChunk chunk;
  std::size_t last_rank, ranks = 1;
};

bool is_worth_it(const Wanted& wanted) {
  std::int64_t elements = 0;
  for (const Box& part : wanted.chunk.parts) elements += element_count(part.sizes);
  return wanted.ranks > 1 && elements >= element_count(wanted.chunk.box.sizes) / kMostOverRead;
}

std::vector<Wanted> decode_told(const Catalog& catalog, std::span<const Bytes> told_by_rank) {
  std::vector<Wanted> all;
  std::unordered_map<std::uint64_t, std::size_t> index;
  for (std::size_t rank = 0; rank < told_by_rank.size(); ++rank) {
    ByteReader in(told_by_rank[rank], "parts that a rank wants");
    while (!in.at_end()) {
      auto [chunk, ndim] = read_chunk(in, catalog);
      Box part = read_box(in, ndim);
      const auto [found, is_new] = index.try_emplace(chunk.chunk, all.size());
      if (is_new) {
        chunk.box = part;
        all.push_back({std::move(chunk), rank});
      }
      Wanted& wanted = all[found->second];
      if (std::exchange(wanted.last_rank, rank) != rank) ++wanted.ranks;
      widen(wanted.chunk.box, part);
      wanted.chunk.parts.push_back(std::move(part));
    }
  }
  return all;
}

}  // namespace

Bytes encode_scattered_items(const Source& source, const LoadPlan& plan, std::span<const ReadItem> items) {
  ByteWriter out;
  for_each_scattered(source, plan, items, [&](std::uint32_t item, const Box& box) {
    write_number(out, items[item].tensor);
    write_number(out, items[item].chunk);
    write_box(out, box);
  });
  return out.take();
}

std::vector<JointChunk> find_joint_chunks(const Catalog& catalog, std::span<const Bytes> told_by_rank,
                                          ReadOnce read_once) {
  std::vector<JointChunk> chunks;
  std::uint64_t saved_bytes = 0;
  for (Wanted& wanted : decode_told(catalog, told_by_rank)) {
    if (!is_worth_it(wanted)) continue;
    const auto bytes = static_cast<std::uint64_t>(element_count(wanted.chunk.box.sizes)) *
                       element_size(catalog.tensors()[wanted.chunk.tensor].dtype);
    saved_bytes += (wanted.ranks - 1) * bytes;
    chunks.push_back(std::move(wanted.chunk));
  }
  if (read_once != ReadOnce::on && saved_bytes < kLeastSaving) return {};
  std::ranges::sort(chunks, {}, [&](const JointChunk& chunk) {
    const StoredItem& stored = catalog.chunks()[chunk.chunk];
    return std::pair(stored.file, stored.byte_offset);
  });
  return chunks;
}

Bytes encode(std::span<const JointChunk> chunks) {
  ByteWriter out;
  for (const JointChunk& chunk : chunks) {
    write_number(out, chunk.tensor);
    write_number(out, chunk.chunk);
    write_box(out, chunk.box);
    write_number(out, chunk.parts.size());
    for (const Box& part : chunk.parts) write_box(out, part);
  }
  return out.take();
}

std::vector<JointChunk> decode_joint_chunks(const Catalog& catalog, std::span<const std::byte> bytes) {
  ByteReader in(bytes, "chunks to be read together");
  std::vector<JointChunk> chunks;
  while (!in.at_end()) {
    auto [chunk, ndim] = read_chunk(in, catalog);
    chunk.box = read_box(in, ndim);
    for (auto count = read_number(in, in.remaining()); count > 0; --count)
      chunk.parts.push_back(read_box(in, ndim));
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

std::vector<JointPart> find_own_parts(const Source& source, const LoadPlan& plan,
                                      std::span<const ReadItem> items, std::span<const JointChunk> chunks) {
  std::unordered_map<std::uint64_t, std::size_t> index;
  for (std::size_t i = 0; i < chunks.size(); ++i) index.emplace(chunks[i].chunk, i);
  std::vector<JointPart> parts;
  for_each_scattered(source, plan, items, [&](std::uint32_t item, Box box) {
    const auto found = index.find(items[item].chunk);
    if (found != index.end()) parts.push_back({found->second, item, std::move(box)});
  });
  std::ranges::stable_sort(parts, {}, &JointPart::joint);
  return parts;
}

}  // namespace cairn
