// SPDX-License-Identifier: BSD-3-Clause
#include "pickle/reader.hpp"

#include "pickle/machine.hpp"

namespace cairn::pickle {

Value read(Arena& arena, std::span<const std::byte> pickle, std::string_view where, ReadLimits limits,
           std::size_t* consumed) {
  ByteStream in(pickle, where);
  return Machine<Arena>(arena, in, where, limits).run(consumed);
}

}  // namespace cairn::pickle
