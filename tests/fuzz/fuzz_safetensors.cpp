// SPDX-License-Identifier: BSD-3-Clause
// A safetensors file, an index and a shard of boxes from any bytes, read as a catalogue.
#include <cstdlib>

#include "cairn/error.hpp"
#include "formats/safetensors/files.hpp"
#include "memory_file.hpp"
#include "storage/forwarding.hpp"

namespace {

using namespace cairn;

// Every file is these bytes.
class OneFile final : public ForwardingFileSystem {
 public:
  explicit OneFile(std::span<const std::uint8_t> bytes)
      : ForwardingFileSystem(posix_file_system()), bytes_(bytes) {}
  std::unique_ptr<File> open_read(const std::string&) override { return std::make_unique<Memory>(bytes_); }
  std::optional<FileStatus> status(const std::string&, bool) override {
    return FileStatus{FileType::regular, bytes_.size(), 0, 0, 0};
  }
  std::vector<std::string> list(const std::string&) override {
    return {"shard-00001-model-00001-of-00002.safetensors", "shard-00001-model-00002-of-00002.safetensors"};
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

// What is without fault lies in its file, and has the bytes of its box.
void check(const safetensors::Contents& contents, std::uint64_t size) {
  const Catalog& catalog = contents.catalog;
  for (const TensorInfo& tensor : catalog.tensors()) {
    for (const StoredItem& chunk : catalog.chunks(tensor)) {
      const auto count = static_cast<std::uint64_t>(element_count(catalog.box(tensor, chunk).sizes));
      if (chunk.byte_length != count * element_size(tensor.dtype)) std::abort();
      if (chunk.byte_offset > size || chunk.byte_length > size - chunk.byte_offset) std::abort();
    }
  }
  const auto encoded = catalog.encode();
  if (Catalog::decode(encoded).encode() != encoded) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  OneFile files({data, size});
  for (const safetensors::Site& site :
       {safetensors::Site{".", "x.safetensors"}, safetensors::Site{".", "x.index.json"},
        safetensors::Site{".", "shard-00001-model-00001-of-00002.safetensors", true}}) {
    try {
      FaultList faults;
      const auto contents = safetensors::read_contents(files, site, faults);
      if (faults.empty()) check(contents, size);
    } catch (const Error&) {
    }
  }
  return 0;
}
