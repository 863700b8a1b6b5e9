// SPDX-License-Identifier: BSD-3-Clause
#include "formats/safetensors/sharding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "cairn/box.hpp"
#include "formats/safetensors/dtype_code.hpp"

namespace cairn::safetensors {

std::vector<std::vector<std::uint32_t>> split(std::span<const std::uint64_t> tensor_bytes,
                                              std::uint64_t most_bytes) {
  std::vector<std::vector<std::uint32_t>> files;
  std::vector<std::uint32_t> open;
  std::uint64_t open_bytes = 0;
  for (std::uint32_t i = 0; i < tensor_bytes.size(); ++i) {
    const std::uint64_t bytes = tensor_bytes[i];
    if (bytes > most_bytes) {
      files.push_back({i});
      continue;
    }
    if (bytes > most_bytes - open_bytes) {
      files.push_back(std::move(open));
      open.clear();
      open_bytes = 0;
    }
    open.push_back(i);
    open_bytes += bytes;
  }
  if (!open.empty() || files.empty()) files.push_back(std::move(open));
  return files;
}

void place(std::span<PlacedTensor> tensors) {
  std::ranges::sort(tensors, {}, [](const PlacedTensor& tensor) {
    return std::tuple(-file_order(tensor.dtype), tensor.name);
  });
  std::uint64_t at = 0;
  for (PlacedTensor& tensor : tensors) {
    tensor.begin = at;
    tensor.end = at += static_cast<std::uint64_t>(element_count(tensor.shape)) * element_size(tensor.dtype);
  }
}

std::string file_name(std::size_t index, std::size_t count) {
  if (count == 1) return std::string(kSingleName);
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

bool is_file_name(std::string_view name) {
  constexpr std::string_view form = "model-00000-of-00000.safetensors";
  return name == file_name(0, 1) || std::ranges::equal(name, form, [](char have, char want) {
           return want == '0' ? have >= '0' && have <= '9' : have == want;
         });
}

}  // namespace cairn::safetensors
