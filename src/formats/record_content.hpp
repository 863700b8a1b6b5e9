// SPDX-License-Identifier: BSD-3-Clause
// What the payload of an output record is made of.
#pragma once

#include <cstdint>

#include "cairn/box.hpp"
#include "cairn/metadata.hpp"
#include "cairn/tensor.hpp"

namespace cairn {

/// A tensor of the catalogue, or a box of it, row-major and contiguous, cast or with its bits kept; or bytes
/// of a file of the source as they are.
struct RecordContent {
  bool is_tensor = false;
  DType dtype = DType::uint8;     ///< as which the tensor is written
  std::uint32_t tensor = 0;       ///< index into catalog.tensors()
  std::uint32_t file = kNoFile;   ///< for bytes: index into catalog.files()
  std::uint64_t byte_offset = 0;  ///< for bytes
  std::uint64_t bytes = 0;        ///< of the payload
  std::uint32_t crc = 0;          ///< for bytes: the stored CRC-32 of all of them; 0: none
  bool is_part = false;           ///< of a tensor only `box`
  /// Of whatever outlives the content. The parts of one tensor tile it, cut along the same dimensions.
  BoxView box = {};
};

}  // namespace cairn
