// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/structure.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "base/fail.hpp"
#include "base/pool.hpp"
#include "base/text.hpp"
#include "formats/dcp/directory_output.hpp"
#include "formats/dcp/metadata_decoder.hpp"
#include "formats/dcp/rank_metadata.hpp"
#include "formats/dcp/source.hpp"
#include "plan/chunk_grid.hpp"

namespace cairn::dcp {
namespace {

class StructureCheck {
 public:
  StructureCheck(FileSystem& files, const std::string& directory, const Catalog& catalog, FaultList& faults)
      : files_(files), directory_(directory), catalog_(catalog), faults_(faults) {}

  void run() {
    root_ = files_.resolve(directory_);
    if (!root_.ends_with('/')) root_ += '/';
    for (const auto& file : catalog_.files()) sizes_.push_back(file_size(file));
    for (const TensorInfo& tensor : catalog_.tensors()) check_tensor(tensor);
    check_objects();
    check_sharing();
  }

  std::vector<std::uint64_t> take_sizes() { return std::move(sizes_); }

 private:
  std::uint64_t file_size(const std::string& file) {
    const std::string path = directory_ + "/" + file;
    const auto status = files_.status(path);
    if (!status) return fault_file(file, fmt::format("{}: the shard file is missing", escape_name(path)));
    if (status->type != FileType::regular) {
      return fault_file(file, fmt::format("{}: the shard is no regular file", escape_name(path)));
    }
    if (!files_.resolve(path).starts_with(root_)) {
      return fault_file(file,
                        fmt::format("{}: the shard is a link that leaves the directory", escape_name(path)));
    }
    return status->size;
  }

  std::uint64_t fault_file(const std::string& file, std::string message) {
    faults_.add({FaultKind::missing_file, {}, file, 0, std::move(message)});
    return kNoSize;
  }

  void check_tensor(const TensorInfo& tensor) {
    const std::string_view name = catalog_.name(tensor);
    const auto chunks = catalog_.chunks(tensor);
    for (const StoredItem& chunk : chunks) {
      const BoxView box = catalog_.box(tensor, chunk);
      if (!box.empty()) check_item(name, box, chunk);
    }
    const auto box_at = [&](std::size_t i) { return catalog_.box(tensor, chunks[i]); };
    const auto fault = find_tiling_fault(catalog_.shape(tensor), chunks.size(), box_at);
    if (fault) add_tiling_fault(tensor, *fault);
  }

  // Objects are held in memory together: without sharing bytes they are no longer than their files.
  void check_objects() {
    std::vector<std::uint64_t> room = sizes_;
    for (const ObjectInfo& object : catalog_.objects()) {
      const StoredItem& item = object.item;
      check_item(catalog_.name(object), "the object", item);
      if (item.byte_length > sizes_[item.file]) continue;  // reported
      if (item.byte_length > room[item.file]) {
        if (faults_.full()) {
          faults_.add_unlisted(1);
          continue;
        }
        const std::string& file = catalog_.files()[item.file];
        faults_.add({FaultKind::overlap, std::string(catalog_.name(object)), file, item.byte_offset,
                     fmt::format("'{}': {} has {} bytes, less than its objects take together",
                                 escape_name(catalog_.name(object)), escape_name(file), sizes_[item.file])});
        continue;
      }
      room[item.file] -= item.byte_length;
    }
  }

  /// Where an item lies.
  struct Held {
    std::uint32_t file;
    bool is_object;
    std::uint64_t index;  // into chunks or objects
    std::uint64_t byte_offset, byte_length;

    auto place() const { return std::tuple(file, byte_offset, byte_length, is_object, index); }
  };

  // Bytes belong to one item, or to several that are the same bytes.
  void check_sharing() {
    std::vector<Held> held;
    held.reserve(catalog_.chunks().size() + catalog_.objects().size());
    const auto add = [&](const StoredItem& item, bool is_object, std::uint64_t index) {
      const std::uint64_t size = item.file == kNoFile ? kNoSize : sizes_[item.file];
      if (size == kNoSize || item.byte_length == 0 || item.byte_length > size) return;
      if (item.byte_offset <= size - item.byte_length)
        held.push_back({item.file, is_object, index, item.byte_offset, item.byte_length});
    };
    for (std::uint64_t i = 0; i < catalog_.chunks().size(); ++i) add(catalog_.chunks()[i], false, i);
    for (std::uint64_t i = 0; i < catalog_.objects().size(); ++i) add(catalog_.objects()[i].item, true, i);
    if (!std::ranges::is_sorted(held, {}, &Held::place)) std::ranges::sort(held, {}, &Held::place);
    const Held* last = nullptr;
    for (const Held& item : held) {
      const bool meets = last != nullptr && last->file == item.file &&
                         item.byte_offset - last->byte_offset < last->byte_length;
      if (!meets)
        last = &item;
      else if (item.byte_offset != last->byte_offset || item.byte_length != last->byte_length)
        add_sharing_fault(item, *last);
    }
  }

  void add_sharing_fault(const Held& item, const Held& other) {
    if (faults_.full()) return faults_.add_unlisted(1);
    const auto name = [&](const Held& held) {
      if (held.is_object) return catalog_.name(catalog_.objects()[held.index]);
      const auto after =
          std::ranges::upper_bound(catalog_.tensors(), held.index, {}, &TensorInfo::first_chunk);
      return catalog_.name(*std::prev(after));
    };
    const std::string& file = catalog_.files()[item.file];
    faults_.add({FaultKind::storage_data, std::string(name(item)), file, item.byte_offset,
                 fmt::format("'{}' in {} at byte {}: its {} bytes overlap those of '{}' at byte {}",
                             escape_name(name(item)), escape_name(file), item.byte_offset, item.byte_length,
                             escape_name(name(other)), other.byte_offset)});
  }

  // `what` is the chunk's box or a phrase.
  template <class What>
  void check_item(std::string_view name, const What& what, const StoredItem& item) {
    if (item.file == kNoFile || sizes_[item.file] == kNoSize) return;  // reported already
    const std::uint64_t size = sizes_[item.file];
    if (item.byte_offset <= size && item.byte_length <= size - item.byte_offset) return;
    if (faults_.full()) return faults_.add_unlisted(1);
    std::string text;
    if constexpr (std::is_convertible_v<What, std::string_view>)
      text = what;
    else
      text = "chunk " + to_string(what);
    const std::string& file = catalog_.files()[item.file];
    faults_.add({FaultKind::short_file, std::string(name), file, item.byte_offset,
                 fmt::format("'{}': {} takes {} bytes at byte {} of {}, which has {}", escape_name(name),
                             text, item.byte_length, item.byte_offset, escape_name(file), size)});
  }

  void add_tiling_fault(const TensorInfo& tensor, const TilingFault& fault) {
    const auto chunks = catalog_.chunks(tensor);
    std::string holders;
    int count = 0;
    for (const StoredItem& chunk : chunks) {
      const BoxView box = catalog_.box(tensor, chunk);
      if (fault.element.size() != box.ndim() || box.empty() || !contains(box, fault.element)) continue;
      if (++count <= 2) holders += (count == 1 ? "" : " and ") + to_string(box);
    }
    const std::string text = fault.overlap ? fmt::format("element {} is in {} chunks ({})",
                                                         to_string(fault.element), count, holders)
                             : fault.element.empty() && tensor.ndim > 0
                                 ? "some elements are in no chunk"
                                 : fmt::format("element {} is in no chunk", to_string(fault.element));
    faults_.add({fault.overlap ? FaultKind::overlap : FaultKind::hole, std::string(catalog_.name(tensor)),
                 ".metadata", 0,
                 fmt::format("'{}': {} (global size {})", escape_name(catalog_.name(tensor)), text,
                             to_string(catalog_.shape(tensor)))});
  }

  static bool contains(BoxView box, std::span<const std::int64_t> element) {
    for (std::size_t d = 0; d < element.size(); ++d) {
      if (element[d] < box.offsets[d] || element[d] - box.offsets[d] >= box.sizes[d]) return false;
    }
    return true;
  }

  FileSystem& files_;
  const std::string& directory_;
  const Catalog& catalog_;
  FaultList& faults_;
  std::string root_;
  std::vector<std::uint64_t> sizes_;
};

}  // namespace

DecodedMetadata decode_metadata_file(FileSystem& files, const std::string& directory, FaultList& faults) {
  const std::string name = first_metadata_name(files, directory);
  if (name != kMetadataName) return decode_rank_metadata(files, directory, faults);
  const std::string path = directory + "/" + name;
  const auto file = files.open_read(path);
  return decode_metadata(*file, path, faults);
}

DecodedMetadata read_metadata(FileSystem& files, const std::string& directory, FaultList& faults,
                              std::vector<std::uint64_t>& file_sizes) {
  auto decoded = decode_metadata_file(files, directory, faults);
  StructureCheck check(files, directory, decoded.catalog, faults);
  check.run();
  file_sizes = check.take_sizes();
  return decoded;
}

void check_structure(FileSystem& files, const std::string& directory, const Catalog& catalog,
                     FaultList& faults) {
  StructureCheck(files, directory, catalog, faults).run();
}

DecodedMetadata read_metadata(FileSystem& files, const std::string& directory, FaultList& faults) {
  std::vector<std::uint64_t> file_sizes;
  return read_metadata(files, directory, faults, file_sizes);
}

}  // namespace cairn::dcp
