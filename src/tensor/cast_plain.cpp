// SPDX-License-Identifier: BSD-3-Clause
#include "tensor/cast_loops.hpp"
#include "tensor/float_formats.hpp"

namespace cairn {

void cast_plain(std::byte* target, DType to, const std::byte* source, DType from, std::size_t elements) {
  with_formats(from, to,
               [&]<class From, class To>(From, To) { convert_all<From, To>(target, source, 0, elements); });
}

}  // namespace cairn
