// SPDX-License-Identifier: BSD-3-Clause
#include "tensor/strided_copy.hpp"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace cairn {
namespace {

using Bits128 = unsigned __int128;

constexpr std::int64_t kVectorBytes = 16;
constexpr std::int64_t kBlock = 64;  // elements: a block's lines of both sides stay in the first-level cache

template <class Element>
constexpr std::int64_t size_of = static_cast<std::int64_t>(sizeof(Element));

template <class Element>
struct Lanes {
  typedef Element Vector __attribute__((vector_size(kVectorBytes)));
  static constexpr std::size_t kCount = kVectorBytes / sizeof(Element);
};

/// The elements of two vectors in turn: of their first halves, and of their second.
template <class Element, std::size_t... I>
void interleave(const typename Lanes<Element>::Vector& a, const typename Lanes<Element>::Vector& b,
                typename Lanes<Element>::Vector* halves, std::index_sequence<I...>) {
  using Vector = typename Lanes<Element>::Vector;
  constexpr std::size_t kCount = Lanes<Element>::kCount;
  constexpr Vector kFirst{static_cast<Element>(I / 2 + I % 2 * kCount)...};
  constexpr Vector kSecond{static_cast<Element>(I / 2 + kCount / 2 + I % 2 * kCount)...};
  halves[0] = __builtin_shuffle(a, b, kFirst);
  halves[1] = __builtin_shuffle(a, b, kSecond);
}

/// A square of as many elements as fit a vector; strides in bytes, of the rows on either side. Row i and row
/// i + n/2 interleaved, log2 n times over, is the transpose.
template <class Element>
void transpose_square(std::byte* target, std::int64_t to, const std::byte* source, std::int64_t from) {
  constexpr std::size_t kCount = Lanes<Element>::kCount;
  typename Lanes<Element>::Vector rows[kCount], mixed[kCount];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kCount; ++i)
    std::memcpy(&rows[i], source + static_cast<std::int64_t>(i) * from, kVectorBytes);
#pragma GCC unroll 16
  for (std::size_t stage = 1; stage < kCount; stage *= 2) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kCount / 2; ++i)
      interleave<Element>(rows[i], rows[i + kCount / 2], &mixed[2 * i], std::make_index_sequence<kCount>());
    std::ranges::copy(mixed, rows);
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kCount; ++i)
    std::memcpy(target + static_cast<std::int64_t>(i) * to, &rows[i], kVectorBytes);
}

template <class Element>
void copy_elements(std::byte* target, std::int64_t to, const std::byte* source, std::int64_t from,
                   std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(target + i * to, source + i * from, sizeof(Element));
}

/// rows × columns elements: contiguous along a row in the source, along a column in the target.
template <class Element>
void transpose_block(std::byte* target, std::int64_t to, const std::byte* source, std::int64_t from,
                     std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kElement = size_of<Element>;
  std::int64_t whole_rows = 0, whole_columns = 0;
  if constexpr (sizeof(Element) < kVectorBytes) {
    constexpr std::int64_t kLanes = kVectorBytes / kElement;
    whole_rows = rows / kLanes * kLanes;
    whole_columns = columns / kLanes * kLanes;
    for (std::int64_t c = 0; c < whole_columns; c += kLanes) {
      for (std::int64_t r = 0; r < whole_rows; r += kLanes)
        transpose_square<Element>(target + c * to + r * kElement, to, source + r * from + c * kElement, from);
    }
  }
  for (std::int64_t c = 0; c < columns; ++c) {
    const std::int64_t first = c < whole_columns ? whole_rows : 0;
    copy_elements<Element>(target + c * to + first * kElement, kElement, source + first * from + c * kElement,
                           from, rows - first);
  }
}

template <class Element>
void transpose(std::byte* target, const std::byte* source, const CopyDim& row, const CopyDim& column) {
  constexpr std::int64_t kElement = size_of<Element>;
  const std::int64_t from = row.source_stride * kElement, to = column.target_stride * kElement;
  for (std::int64_t r = 0; r < row.size; r += kBlock) {
    for (std::int64_t c = 0; c < column.size; c += kBlock) {
      transpose_block<Element>(target + c * to + r * kElement, to, source + r * from + c * kElement, from,
                               std::min(kBlock, row.size - r), std::min(kBlock, column.size - c));
    }
  }
}

/// Past the caches: a line of the target is not read first, and what the caches hold stays.
void copy_past_caches(std::byte* target, const std::byte* source, std::size_t bytes) {
#ifdef __SSE2__
  constexpr std::size_t kLine = 64, kWorthIt = 8 * kLine;
  if (bytes >= kWorthIt) {
    const std::size_t head = -reinterpret_cast<std::uintptr_t>(target) % kLine;
    std::memcpy(target, source, head);
    const std::size_t lines_end = head + (bytes - head) / kLine * kLine;
    for (std::size_t at = head; at < lines_end; at += sizeof(__m128i)) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(target + at),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + at)));
    }
    target += lines_end;
    source += lines_end;
    bytes -= lines_end;
  }
#endif
  std::memcpy(target, source, bytes);
}

/// After copies past the caches: others see them.
void end_copies() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

bool is_run(const CopyDim& dim) { return dim.source_stride == 1 && dim.target_stride == 1; }
bool is_transposition(const CopyDim& row, const CopyDim& column) {
  return row.target_stride == 1 && column.source_stride == 1;
}

template <class Element>
void copy_box(std::byte* target, const std::byte* source, std::span<const CopyDim> dims, CopyUse use) {
  constexpr std::int64_t kElement = size_of<Element>;
  if (dims.empty()) {
    std::memcpy(target, source, sizeof(Element));
    return;
  }
  const CopyDim& dim = dims[0];
  const std::int64_t from = dim.source_stride * kElement, to = dim.target_stride * kElement;
  if (dims.size() == 1 && is_run(dim)) {
    const auto bytes = static_cast<std::size_t>(dim.size * kElement);
    if (use == CopyUse::later)
      copy_past_caches(target, source, bytes);
    else
      std::memcpy(target, source, bytes);
  } else if (dims.size() == 1) {
    copy_elements<Element>(target, to, source, from, dim.size);
  } else if (dims.size() == 2 && is_transposition(dims[0], dims[1])) {
    transpose<Element>(target, source, dims[0], dims[1]);
  } else {
    for (std::int64_t i = 0; i < dim.size; ++i)
      copy_box<Element>(target + i * to, source + i * from, dims.subspan(1), use);
  }
}

constexpr std::size_t kReordered = 16;  // boxes of more dimensions are copied in the order given

/// The dimension that is contiguous in the source innermost, before it the one contiguous in the target.
std::span<const CopyDim> reorder(std::span<const CopyDim> dims, std::array<CopyDim, kReordered>& room) {
  if (dims.size() < 2 || dims.size() > kReordered || is_run(dims.back())) return dims;
  const std::span<CopyDim> ordered(room.data(), dims.size());
  std::ranges::copy(dims, ordered.begin());
  const auto last = ordered.end();
  const auto column = std::ranges::find(ordered, 1, &CopyDim::source_stride);
  if (column == last) return dims;
  std::rotate(column, column + 1, last);
  if (is_run(ordered.back())) return ordered;
  const auto row = std::ranges::find(ordered, 1, &CopyDim::target_stride);
  if (row != last) std::rotate(row, row + 1, last - 1);
  return ordered;
}

}  // namespace

void strided_copy(std::byte* target, const std::byte* source, std::span<const CopyDim> dims,
                  std::uint64_t element_bytes, CopyUse use) {
  std::array<CopyDim, kReordered> room;
  const auto ordered = reorder(dims, room);
  const auto copy = [&]<class Element>(Element) { copy_box<Element>(target, source, ordered, use); };
  switch (element_bytes) {
    case 1:
      copy(std::uint8_t{});
      break;
    case 2:
      copy(std::uint16_t{});
      break;
    case 4:
      copy(std::uint32_t{});
      break;
    case 8:
      copy(std::uint64_t{});
      break;
    case 16:
      copy(Bits128{});
      break;
    default:
      assert(false);
  }
  if (use == CopyUse::later) end_copies();
}

bool is_row_major(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides) {
  std::int64_t expected = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1 && strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

}  // namespace cairn
