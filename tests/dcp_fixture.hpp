// SPDX-License-Identifier: BSD-3-Clause
// Small DCP directories made by construction: an element's value is its global linear index (modulo the
// element's range). What torch itself writes is tested in tests/interop; this serves tests that need odd
// shapes, strides and damage.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/byte_writer.hpp"
#include "base/crc32.hpp"
#include "cairn/box.hpp"
#include "cairn/tensor.hpp"
#include "formats/torch_file/layout.hpp"
#include "pickle/writer.hpp"
#include "temp_dir.hpp"

namespace cairn {

using Shape = std::vector<std::int64_t>;

struct FixtureChunk {
  Box box;
  std::string file = "__0_0.distcp";
  std::vector<std::size_t> order =
      {};                ///< dimensions from outermost to innermost in the storage; empty: row-major
  std::int64_t gap = 1;  ///< the innermost stride in elements
  std::int64_t storage_offset = 0;
};

struct FixtureTensor {
  std::string name;
  DType dtype;
  Shape shape;
  std::vector<FixtureChunk> chunks;
};

inline void write_element(std::byte* at, std::int64_t value, std::uint64_t element_bytes) {
  std::uint64_t wide[2] = {static_cast<std::uint64_t>(value), 0};
  std::memcpy(at, wide, element_bytes);
}

/// The bytes of the whole tensor, row-major.
inline Bytes expected_payload(const FixtureTensor& tensor) {
  const auto element = element_size(tensor.dtype);
  Bytes bytes(static_cast<std::uint64_t>(element_count(tensor.shape)) * element);
  for (std::uint64_t i = 0; i < bytes.size() / element; ++i) {
    write_element(bytes.data() + i * element, static_cast<std::int64_t>(i), element);
  }
  return bytes;
}

class DcpFixture {
 public:
  using Value = pickle::Value;

  void add(FixtureTensor tensor) { tensors_.push_back(std::move(tensor)); }
  /// A uint8 matrix of rows × columns chunks, all of them the one chunk that is stored: `height` × `width`
  /// elements, its own iota. Very many chunks in a small file.
  void add_repeated(const std::string& name, std::int64_t rows, std::int64_t columns, std::int64_t height,
                    std::int64_t width) {
    FixtureTensor stored{name, DType::uint8, {height, width}, {{{{0, 0}, {height, width}}}}};
    write_tensor(stored);
    entries_.resize(entries_.size() - 2);
    const Value place = storage_data_.back();
    storage_data_.resize(storage_data_.size() - 2);
    std::vector<Value> chunks;
    const Value fqn = text(name), sizes = size(stored.shape);
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const Value offsets = size(Shape{i / columns * height, i % columns * width});
      chunks.push_back(meta("ChunkStorageMetadata", {text("offsets"), offsets, text("sizes"), sizes}));
      storage_data_.push_back(meta("MetadataIndex", {text("fqn"), fqn, text("offset"), offsets}));
      storage_data_.push_back(place);
    }
    add_entry(name, DType::uint8, {rows * height, columns * width}, chunks);
  }
  /// An object whose value is one str.
  void add_object(const std::string& name, const std::string& text) { objects_.emplace_back(name, text); }

  void write(const TempDir& dir, const std::string& folder) {
    const auto object_entries = write_objects();
    for (const auto& tensor : tensors_) write_tensor(tensor);
    entries_.insert(entries_.end(), object_entries.begin(), object_entries.end());
    for (const auto& [file, bytes] : files_) dir.write(folder + "/" + file, as_text(bytes));
    ByteWriter out;
    pickle::write_protocol2(arena_, metadata(), out);
    dir.write(folder + "/.metadata", as_text(out.view()));
  }

 private:
  Value text(const std::string& value) { return arena_.string(value); }
  Value size(std::span<const std::int64_t> numbers) {
    std::vector<Value> items;
    for (const auto number : numbers) items.push_back(arena_.integer(number));
    return arena_.object(pickle::Construct::reduce, arena_.global("torch", "Size"),
                         arena_.tuple(std::vector{arena_.tuple(items)}));
  }
  Value ints(std::span<const std::int64_t> numbers) {
    std::vector<Value> items;
    for (const auto number : numbers) items.push_back(arena_.integer(number));
    return arena_.tuple(items);
  }
  Value instance(const std::string& module, const std::string& name, std::vector<Value> state) {
    const Value object =
        arena_.object(pickle::Construct::newobj, arena_.global(module, name), arena_.tuple({}));
    const Value fields = arena_.dict();
    arena_.set_all(fields, state);
    arena_.set_state(object, fields);
    return object;
  }
  Value meta(const std::string& name, std::vector<Value> state) {
    return instance("torch.distributed.checkpoint.metadata", name, std::move(state));
  }

  // One item: a torch file named "archive" of one value and at most one storage.
  void append_item(const std::string& file, Value key, Value value, std::span<const std::byte> storage,
                   bool has_storage, std::vector<Value>& storage_data) {
    ByteWriter pickle;
    pickle::write_protocol2(arena_, value, pickle);
    std::vector<std::uint64_t> sizes;
    if (has_storage) sizes.push_back(storage.size());
    const torch_file::Layout layout("archive", pickle.size(), sizes);
    Bytes item(layout.file_size());
    const auto put = [&](std::uint64_t at, std::span<const std::byte> bytes) {
      if (!bytes.empty()) std::memcpy(item.data() + at, bytes.data(), bytes.size());
    };
    put(0, layout.head(pickle.view()));
    std::vector<std::uint32_t> crcs;
    if (has_storage) {
      const auto extent = layout.extent(0), payload = layout.payload(0);
      crcs.push_back(crc32(storage));
      layout.write_front(0, std::span(item).subspan(extent.begin, payload.begin - extent.begin));
      put(payload.begin, storage);
      layout.write_back(0, crcs[0], std::span(item).subspan(payload.end, extent.end - payload.end));
    }
    std::uint64_t at = layout.region().end;
    layout.write_tail(pickle.view(), crcs, [&](std::span<const std::byte> bytes) {
      put(at, bytes);
      at += bytes.size();
    });
    Bytes& out = files_[file];
    const auto offset = static_cast<std::int64_t>(out.size());
    out.insert(out.end(), item.begin(), item.end());
    storage_data.push_back(key);
    storage_data.push_back(
        instance("torch.distributed.checkpoint.filesystem", "_StorageInfo",
                 {text("relative_path"), text(file), text("offset"), arena_.integer(offset), text("length"),
                  arena_.integer(static_cast<std::int64_t>(item.size()))}));
  }

  std::vector<Value> write_objects() {
    std::vector<Value> entries;
    for (const auto& [name, content] : objects_) {
      const Value key = meta("MetadataIndex", {text("fqn"), text(name)});
      append_item("__0_0.distcp", key, text(content), {}, false, storage_data_);
      entries.push_back(text(name));
      entries.push_back(meta("BytesStorageMetadata", {}));
    }
    return entries;
  }

  void write_tensor(const FixtureTensor& tensor) {
    std::vector<Value> chunks;
    for (const auto& chunk : tensor.chunks) {
      write_chunk(tensor, chunk);
      chunks.push_back(meta("ChunkStorageMetadata", {text("offsets"), size(chunk.box.offsets), text("sizes"),
                                                     size(chunk.box.sizes)}));
    }
    add_entry(tensor.name, tensor.dtype, tensor.shape, chunks);
  }

  void add_entry(const std::string& name, DType dtype, const Shape& shape, std::span<const Value> chunks) {
    const Value list = arena_.list();
    arena_.append_all(list, chunks);
    const Value properties =
        meta("TensorProperties", {text("dtype"), arena_.global("torch", info(dtype).name)});
    entries_.push_back(text(name));
    entries_.push_back(meta("TensorStorageMetadata", {text("properties"), properties, text("size"),
                                                      size(shape), text("chunks"), list}));
  }

  void write_chunk(const FixtureTensor& tensor, const FixtureChunk& chunk) {
    const std::size_t ndim = tensor.shape.size();
    std::vector<std::size_t> order = chunk.order;
    if (order.empty()) {
      order.resize(ndim);
      std::iota(order.begin(), order.end(), std::size_t{0});
    }
    Shape strides(ndim, 1);
    std::int64_t stride = chunk.gap;
    for (std::size_t i = ndim; i-- > 0;) {
      strides[order[i]] = stride;
      stride *= std::max<std::int64_t>(chunk.box.sizes[order[i]], 1);
    }
    const auto element = element_size(tensor.dtype);
    const std::int64_t held = chunk.storage_offset + (ndim == 0 ? 1 : stride);
    Bytes storage(static_cast<std::uint64_t>(held) * element, std::byte{0xee});
    fill(tensor, chunk, strides, storage);

    const bool legacy = !info(tensor.dtype).storage_class.empty();
    const Value storage_class = legacy ? arena_.global("torch", info(tensor.dtype).storage_class)
                                       : arena_.global("torch.storage", "UntypedStorage");
    const auto count = static_cast<std::int64_t>(legacy ? storage.size() / element : storage.size());
    const Value id = arena_.persistent(arena_.tuple(
        std::vector{text("storage"), storage_class, text("0"), text("cuda:3"), arena_.integer(count)}));
    std::vector<Value> args{id,
                            arena_.integer(chunk.storage_offset),
                            ints(chunk.box.sizes),
                            ints(strides),
                            arena_.boolean(false),
                            arena_.object(pickle::Construct::reduce,
                                          arena_.global("collections", "OrderedDict"), arena_.tuple({}))};
    if (!legacy) args.push_back(arena_.global("torch", info(tensor.dtype).name));
    const Value value =
        arena_.object(pickle::Construct::reduce,
                      arena_.global("torch._utils", legacy ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3"),
                      arena_.tuple(args));
    const Value key =
        meta("MetadataIndex", {text("fqn"), text(tensor.name), text("offset"), size(chunk.box.offsets)});
    append_item(chunk.file, key, value, storage, true, storage_data_);
  }

  static void fill(const FixtureTensor& tensor, const FixtureChunk& chunk, const Shape& strides,
                   Bytes& storage) {
    const auto element = element_size(tensor.dtype);
    const auto global = contiguous_strides(tensor.shape), local = contiguous_strides(chunk.box.sizes);
    const std::int64_t count = element_count(chunk.box.sizes);
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t value = 0, at = chunk.storage_offset;
      for (std::size_t d = 0; d < strides.size(); ++d) {
        const std::int64_t index = i / local[d] % chunk.box.sizes[d];
        value += (chunk.box.offsets[d] + index) * global[d];
        at += index * strides[d];
      }
      write_element(storage.data() + static_cast<std::uint64_t>(at) * element, value, element);
    }
  }

  Value metadata() {
    const Value states = arena_.dict(), stored = arena_.dict();
    arena_.set_all(states, entries_);
    arena_.set_all(stored, storage_data_);
    return meta("Metadata", {text("state_dict_metadata"), states, text("planner_data"), arena_.none(),
                             text("storage_data"), stored});
  }

  pickle::Arena arena_;
  std::vector<FixtureTensor> tensors_;
  std::vector<std::pair<std::string, std::string>> objects_;
  std::map<std::string, Bytes> files_;
  std::vector<Value> entries_, storage_data_;
};

/// Cuts `shape` along `dim` into `parts` of nearly even size, one file each.
inline std::vector<FixtureChunk> split(const Shape& shape, std::size_t dim, std::int64_t parts) {
  std::vector<FixtureChunk> chunks;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < parts; ++i) {
    FixtureChunk chunk{{Shape(shape.size(), 0), shape}, "__" + std::to_string(i) + "_0.distcp"};
    chunk.box.offsets[dim] = at;
    chunk.box.sizes[dim] = shape[dim] / parts + (i < shape[dim] % parts ? 1 : 0);
    at += chunk.box.sizes[dim];
    chunks.push_back(chunk);
  }
  return chunks;
}

}  // namespace cairn
