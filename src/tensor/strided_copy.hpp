// SPDX-License-Identifier: BSD-3-Clause
// Copies of strided boxes in memory. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn {

/// Whether elements with these strides (of elements) follow each other in row-major order, without gaps; so
/// does what has no elements. Strides of dimensions of one element say nothing.
bool is_row_major(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides);

/// One dimension of a copy; strides in elements.
struct CopyDim {
  std::int64_t size, source_stride, target_stride;
};

/// What becomes of the target: whether the caches are to keep it.
enum class CopyUse { soon, later };

/// Copies the box that `dims` (outermost first) describes, element [0, …, 0] at `source` and `target`. The
/// element size is 1, 2, 4, 8 or 16 bytes. Source and target don't overlap.
void strided_copy(std::byte* target, const std::byte* source, std::span<const CopyDim> dims,
                  std::uint64_t element_bytes, CopyUse use = CopyUse::soon);

}  // namespace cairn
