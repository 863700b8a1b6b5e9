// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <type_traits>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/checked.hpp"
#include "base/pool.hpp"
#include "cairn/metadata.hpp"

namespace cairn {
namespace {

template <class T>
void write_array(ByteWriter& out, const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.write<std::uint64_t>(values.size());
  out.append(std::as_bytes(std::span(values)));
}

template <class T>
void read_array(ByteReader& in, std::vector<T>& values) {
  const auto count = in.read<std::uint64_t>();
  const auto bytes = in.bytes(checked_mul<std::uint64_t>(count, sizeof(T), "array size"));
  values.resize(count);
  if (count > 0) std::memcpy(static_cast<void*>(values.data()), bytes.data(), bytes.size());
}

}  // namespace

std::string_view Catalog::text(StringId id) const {
  const std::uint64_t begin = id == 0 ? 0 : string_ends_[id - 1];
  return {characters_.data() + begin, string_ends_[id] - begin};
}

std::string_view Catalog::name(const Entry& entry) const {
  return entry.is_tensor ? name(tensors_[entry.index]) : name(objects_[entry.index]);
}

std::span<const std::int64_t> Catalog::shape(const TensorInfo& tensor) const {
  return std::span(coordinates_).subspan(tensor.shape_at, tensor.ndim);
}

BoxView Catalog::box(const TensorInfo& tensor, const StoredItem& chunk) const {
  const std::span<const std::int64_t> pool(coordinates_);
  return {pool.subspan(chunk.box_at, tensor.ndim), pool.subspan(chunk.box_at + tensor.ndim, tensor.ndim)};
}

std::uint64_t Catalog::byte_count(const TensorInfo& tensor) const {
  return checked_mul(static_cast<std::uint64_t>(element_count(shape(tensor))), element_size(tensor.dtype),
                     "tensor size");
}

std::span<const PathStep> Catalog::path(const Entry& entry) const {
  return std::span(steps_).subspan(entry.path_at, entry.path_length);
}

StringId Catalog::add_string(std::string_view text) {
  characters_.insert(characters_.end(), text.begin(), text.end());
  string_ends_.push_back(characters_.size());
  return static_cast<StringId>(string_ends_.size() - 1);
}

std::uint32_t Catalog::add_file(std::string path) {
  files_.push_back(std::move(path));
  return static_cast<std::uint32_t>(files_.size() - 1);
}

TensorInfo& Catalog::add_tensor(StringId name, DType dtype, std::span<const std::int64_t> shape) {
  tensors_.push_back(
      {name, dtype, static_cast<std::uint32_t>(shape.size()), coordinates_.size(), chunks_.size(), 0});
  coordinates_.insert(coordinates_.end(), shape.begin(), shape.end());
  entries_.push_back({static_cast<std::uint32_t>(tensors_.size() - 1), true, false, 0, 0});
  return tensors_.back();
}

namespace {

template <class T>
void reserve_at_least_double(std::vector<T>& values, std::size_t count) {
  if (count <= values.capacity()) return;
  std::vector<T> larger;
  larger.reserve(std::max(count, 2 * values.capacity()));
  expect_large(larger.data(), larger.capacity() * sizeof(T));
  larger.assign(values.begin(), values.end());
  values.swap(larger);
}

}  // namespace

void Catalog::reserve_entries(std::size_t count) {
  reserve_large(entries_, count);
  reserve_large(tensors_, count);
  reserve_large(chunks_, count);
  reserve_large(coordinates_, 6 * count);
  reserve_large(steps_, 6 * count);
  reserve_large(string_ends_, 6 * count);
  reserve_large(characters_, 96 * count);
}

void Catalog::reserve_chunks(std::size_t count, std::size_t ndim) {
  reserve_at_least_double(chunks_, chunks_.size() + count);
  reserve_at_least_double(coordinates_, coordinates_.size() + 2 * count * ndim);
}

void Catalog::add_chunk(BoxView box, std::uint32_t file, std::uint64_t byte_offset, std::uint64_t byte_length,
                        Transform transform) {
  chunks_.push_back({coordinates_.size(), byte_offset, byte_length, file, transform});
  coordinates_.insert(coordinates_.end(), box.offsets.begin(), box.offsets.end());
  coordinates_.insert(coordinates_.end(), box.sizes.begin(), box.sizes.end());
  ++tensors_.back().chunk_count;
}

void Catalog::add_object(StringId name, std::uint32_t file, std::uint64_t byte_offset,
                         std::uint64_t byte_length, Transform transform) {
  objects_.push_back({name, {0, byte_offset, byte_length, file, transform}});
  entries_.push_back({static_cast<std::uint32_t>(objects_.size() - 1), false, false, 0, 0});
}

void Catalog::set_path(std::span<const PathStep> path) {
  Entry& entry = entries_.back();
  entry.has_path = true;
  entry.path_at = steps_.size();
  entry.path_length = static_cast<std::uint32_t>(path.size());
  steps_.insert(steps_.end(), path.begin(), path.end());
}

void Catalog::place_chunk(std::size_t chunk, std::uint32_t file, std::uint64_t byte_offset,
                          std::uint64_t byte_length) {
  chunks_[chunk] = {chunks_[chunk].box_at, byte_offset, byte_length, file};
}

void Catalog::place_object(std::size_t object, std::uint32_t file, std::uint64_t byte_offset,
                           std::uint64_t byte_length) {
  objects_[object].item = {0, byte_offset, byte_length, file};
}

std::vector<std::byte> Catalog::encode() const {
  ByteWriter out;
  write_array(out, entries_);
  write_array(out, tensors_);
  write_array(out, objects_);
  write_array(out, chunks_);
  write_array(out, coordinates_);
  write_array(out, steps_);
  write_array(out, characters_);
  write_array(out, string_ends_);
  out.write<std::uint64_t>(files_.size());
  for (const auto& file : files_) {
    out.counted_text(file);
  }
  return out.take();
}

Catalog Catalog::decode(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "catalogue");
  Catalog catalog;
  read_array(in, catalog.entries_);
  read_array(in, catalog.tensors_);
  read_array(in, catalog.objects_);
  read_array(in, catalog.chunks_);
  read_array(in, catalog.coordinates_);
  read_array(in, catalog.steps_);
  read_array(in, catalog.characters_);
  read_array(in, catalog.string_ends_);
  const auto file_count = in.read<std::uint64_t>();
  for (std::uint64_t i = 0; i < file_count; ++i) {
    catalog.files_.emplace_back(in.counted_text());
  }
  if (!in.at_end()) fail_corrupt("catalogue: {} bytes too many", in.remaining());
  return catalog;
}

}  // namespace cairn
