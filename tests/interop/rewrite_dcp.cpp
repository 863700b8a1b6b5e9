// SPDX-License-Identifier: BSD-3-Clause
// rewrite_dcp SOURCE TARGET CHECKPOINT_ID SAVE_ID [NAME VALUE] < path order: reads a DCP directory with
// Cairn's reader and writes every item and the metadata anew with Cairn's writer, into the same files in the
// same order. For run_writer.py. The path order is the order of planner_data, as positions in
// state_dict_metadata. Elements are made contiguous; objects that hold tensors are copied as they are.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>

#include "base/crc32.hpp"
#include "cairn/error.hpp"
#include "formats/dcp/item.hpp"
#include "formats/dcp/item_order.hpp"
#include "formats/dcp/item_writer.hpp"
#include "formats/dcp/metadata_decoder.hpp"
#include "formats/dcp/metadata_encoder.hpp"
#include "pickle/persistent_nodes.hpp"
#include "plan/windows.hpp"
#include "tensor/strided_copy.hpp"

namespace {

using namespace cairn;

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

zip::ReadAt reader_of(std::span<const std::byte> item) {
  return [item](std::uint64_t byte_offset, std::span<std::byte> into) {
    std::ranges::copy(item.subspan(byte_offset, into.size()), into.begin());
  };
}

// Where the rewritten items lie, by entry and position.
using Places = std::map<std::pair<std::uint32_t, std::uint32_t>, ByteRange>;

class Rewriter {
 public:
  explicit Rewriter(const std::filesystem::path& source) : source_(source) {
    const Bytes metadata = read_file(source / ".metadata");
    catalog_ = dcp::decode_metadata(metadata, "source", faults_).catalog;
    faults_.throw_if_any("source");
  }

  void write_files(const std::filesystem::path& target) {
    for (const auto& entry : std::filesystem::directory_iterator(source_)) {
      if (entry.path().extension() == ".distcp") files_[entry.path().filename().string()];
    }
    for (const dcp::ItemRef ref : dcp::items_by_place(catalog_)) {
      const StoredItem& stored = dcp::stored_item(catalog_, ref);
      ByteWriter& out = files_.at(catalog_.files()[stored.file]);
      const std::uint64_t begin = out.size();
      if (catalog_.entries()[ref.entry].is_tensor)
        write_tensor(item(stored), out);
      else
        write_object(item(stored), out);
      places_[{ref.entry, ref.position}] = {begin, out.size()};
    }
    for (const auto& [name, content] : files_) {
      std::ofstream(target / name, std::ios::binary) << as_text(content.view());
    }
  }

  void write_metadata(const std::filesystem::path& target, const dcp::StorageMeta& meta,
                      std::span<const std::uint32_t> path_order) const {
    std::ofstream out(target / ".metadata", std::ios::binary);
    dcp::encode_metadata(rewritten(), meta, path_order,
                         [&](std::span<const std::byte> piece) { out << as_text(piece); });
  }

 private:
  std::span<const std::byte> item(const StoredItem& stored) {
    const std::string& file = catalog_.files()[stored.file];
    if (file != open_) content_ = read_file(source_ / file);
    open_ = file;
    return std::span(content_).subspan(stored.byte_offset, stored.byte_length);
  }

  void write_tensor(std::span<const std::byte> source, ByteWriter& out) {
    const auto head = dcp::read_item_head(reader_of(source), source.size(), open_);
    const dcp::TensorItem& made = items_.of(head.dtype, head.shape);
    Bytes payload(made.payload_bytes());
    const auto target_strides = contiguous_strides(head.shape);
    std::vector<CopyDim> dims;
    for (std::size_t i = 0; i < head.shape.size(); ++i)
      dims.push_back({head.shape[i], head.strides[i], target_strides[i]});
    if (!payload.empty())
      strided_copy(payload.data(), source.data() + head.first_byte, dims, element_size(head.dtype));
    out.append(made.head());
    out.append(payload);
    Bytes tail(made.tail_bytes());
    made.write_tail(crc32(payload), tail);
    out.append(tail);
  }

  static void write_object(std::span<const std::byte> source, ByteWriter& out) {
    pickle::Arena arena;
    const auto value = dcp::ObjectItem(reader_of(source), source.size(), "object").read(arena);
    const bool plain = pickle::persistent_nodes(arena, value).empty();
    out.append(plain ? dcp::object_item(arena, value) : Bytes(source.begin(), source.end()));
  }

  Catalog rewritten() const {
    Catalog made;
    for (StringId id = 0; id < catalog_.string_count(); ++id) made.add_string(catalog_.text(id));
    for (const auto& file : catalog_.files()) made.add_file(file);
    for (std::uint32_t i = 0; i < catalog_.entries().size(); ++i) {
      const Entry& entry = catalog_.entries()[i];
      if (entry.is_tensor) {
        add_tensor(i, catalog_.tensors()[entry.index], made);
      } else {
        const ObjectInfo& object = catalog_.objects()[entry.index];
        const ByteRange place = places_.at({i, 0});
        made.add_object(object.name, object.item.file, place.begin, place.end - place.begin);
      }
      if (entry.has_path) made.set_path(catalog_.path(entry));
    }
    return made;
  }
  void add_tensor(std::uint32_t entry, const TensorInfo& tensor, Catalog& made) const {
    made.add_tensor(tensor.name, tensor.dtype, catalog_.shape(tensor));
    std::uint32_t position = 0;
    for (const StoredItem& chunk : catalog_.chunks(tensor)) {
      const ByteRange place = places_.at({entry, position++});
      made.add_chunk(catalog_.box(tensor, chunk), chunk.file, place.begin, place.end - place.begin);
    }
  }

  const std::filesystem::path source_;
  FaultList faults_;
  Catalog catalog_;
  std::map<std::string, ByteWriter> files_;
  Places places_;
  dcp::TensorItems items_;
  std::string open_;
  Bytes content_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 && argc != 7) return 2;
  try {
    cairn::dcp::StorageMeta meta{argv[3], argv[4]};
    if (argc == 7) meta.attributes.emplace_back(argv[5], argv[6]);
    const std::vector<std::uint32_t> order{std::istream_iterator<std::uint32_t>(std::cin), {}};
    Rewriter rewriter(argv[1]);
    rewriter.write_files(argv[2]);
    rewriter.write_metadata(argv[2], meta, order);
    return 0;
  } catch (const cairn::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
