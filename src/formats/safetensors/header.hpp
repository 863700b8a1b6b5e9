// SPDX-License-Identifier: BSD-3-Clause
// The header of a safetensors file: what is read, checked, and what is written. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/metadata.hpp"
#include "cairn/storage.hpp"

namespace cairn::safetensors {

/// The length of the header comes first, in 8 bytes.
inline constexpr std::uint64_t kLengthBytes = 8;
/// Readers take no longer one.
inline constexpr std::uint64_t kMostHeaderBytes = 100'000'000;

using TextPairs = std::vector<std::pair<std::string, std::string>>;

/// In the order of the file. Names and shapes lie in the pools of the header.
struct HeaderEntry {
  std::uint64_t name_at, shape_at;
  std::uint32_t name_bytes, ndim;
  DType dtype;
  std::uint64_t begin, end;  ///< in the data
};

struct Header {
  std::uint64_t bytes = 0;  ///< in front of the data: the length and the text
  std::vector<HeaderEntry> entries;
  TextPairs metadata;  ///< __metadata__
  std::string names;
  std::vector<std::int64_t> shapes;  ///< in elements of torch

  std::string_view name(const HeaderEntry& entry) const {
    return std::string_view(names).substr(entry.name_at, entry.name_bytes);
  }
  std::span<const std::int64_t> shape(const HeaderEntry& entry) const {
    return std::span(shapes).subspan(entry.shape_at, entry.ndim);
  }
};

/// Reads the header of a file called `name` in messages. Throws corrupt when it cannot be read as one: too
/// short or long, no JSON, a key twice, another form, a negative number. What is wrong with single tensors
/// goes into `faults`, and the tensor stays out: a code that is not known (dtype), a shape that is too large
/// or is not that of the bytes (shape), bytes beyond the end (out_of_bounds; short_file when the data is
/// cut), bytes of two (overlap), of none (hole).
Header read_header(File& file, const std::string& name, FaultList& faults);

/// A tensor in a file that is to be written.
struct PlacedTensor {
  std::string_view name;  ///< UTF-8
  DType dtype;            ///< one with a code
  std::span<const std::int64_t> shape;
  std::uint64_t begin, end;  ///< in the data
};

/// The length, the text, and spaces up to a multiple of 8: as the library writes it. Throws unsupported when
/// a name is not UTF-8.
std::string encode_header(std::span<const PlacedTensor> tensors, const TextPairs& metadata);

/// Of an index over `weights`, pairs of name and file, with `metadata` beside the bytes of all tensors;
/// sorted by name, as json.dumps(…, indent=2, sort_keys=True) writes it.
std::string encode_index(TextPairs weights, const TextPairs& metadata, std::uint64_t total_bytes);

}  // namespace cairn::safetensors
