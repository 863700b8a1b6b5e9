// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include "commands/selection.hpp"
#include "json_text.hpp"

namespace cairn {
namespace {

class JsonListing {
 public:
  JsonListing(StandardOutput& out, const Selection& selection, bool shards)
      : out_(out), selection_(selection), catalog_(selection.listing.catalog), shards_(shards) {
    used_files_.resize(catalog_.files().size());
  }

  void print(const std::string& path) {
    out_.write(fmt::format("{{\"format\": {}, \"path\": {},\n \"tensors\": [",
                           json_string(selection_.listing.format), json_string(path)));
    print_each(true);
    out_.write("],\n \"objects\": [");
    print_each(false);
    out_.write(
        fmt::format("],\n \"totals\": {{\"tensors\": {}, \"objects\": {}, \"bytes\": {}, \"files\": {}}}}}\n",
                    tensors_, objects_, bytes_, files_));
  }

 private:
  void print_each(bool tensors) {
    const char* separator = "\n  ";
    for (const auto& entry : selection_.entries) {
      if (entry.is_tensor != tensors) continue;
      out_.write(separator);
      separator = ",\n  ";
      if (tensors)
        print_tensor(catalog_.tensors()[entry.index]);
      else
        print_object(catalog_.objects()[entry.index]);
    }
  }

  void print_tensor(const TensorInfo& tensor) {
    const auto bytes = catalog_.byte_count(tensor);
    out_.write(
        fmt::format("{{\"name\": {}, \"dtype\": \"{}\", \"shape\": {}, \"bytes\": {}, \"chunk_count\": {}",
                    json_string(catalog_.name(tensor)), info(tensor.dtype).name,
                    json_array(catalog_.shape(tensor)), bytes, tensor.chunk_count));
    for (const auto& chunk : catalog_.chunks(tensor)) count_file(chunk);
    if (shards_) print_chunks(tensor);
    out_.write("}");
    ++tensors_, bytes_ += bytes;
  }

  void print_chunks(const TensorInfo& tensor) {
    out_.write(",\n   \"chunks\": [");
    const char* separator = "";
    for (const auto& chunk : catalog_.chunks(tensor)) {
      const auto box = catalog_.box(tensor, chunk);
      out_.write(fmt::format(
          "{}{{\"offsets\": {}, \"sizes\": {}, \"file\": {}, \"byte_offset\": {}, \"byte_length\": {}}}",
          separator, json_array(box.offsets), json_array(box.sizes), file_of(chunk), chunk.byte_offset,
          chunk.byte_length));
      separator = ",\n    ";
    }
    out_.write("]");
  }

  void print_object(const ObjectInfo& object) {
    count_file(object.item);
    out_.write(fmt::format("{{\"name\": {}, \"bytes\": {}}}", json_string(catalog_.name(object)),
                           object.item.byte_length));
    ++objects_;
  }

  std::string file_of(const StoredItem& item) const {
    return item.file == kNoFile ? "null" : json_string(catalog_.files()[item.file]);
  }

  void count_file(const StoredItem& item) {
    if (item.file == kNoFile || used_files_[item.file]) return;
    used_files_[item.file] = true;
    ++files_;
  }

  StandardOutput& out_;
  const Selection& selection_;
  const Catalog& catalog_;
  bool shards_;
  std::vector<bool> used_files_;
  std::uint64_t tensors_ = 0, objects_ = 0, bytes_ = 0, files_ = 0;
};

}  // namespace

void print_json(StandardOutput& out, const Selection& selection, const std::string& path, bool shards) {
  JsonListing(out, selection, shards).print(path);
}

}  // namespace cairn
