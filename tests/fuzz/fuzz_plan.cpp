// SPDX-License-Identifier: BSD-3-Clause
// What ranks send each other while they plan: the first byte says which kind the rest is.
#include <algorithm>
#include <cstdlib>

#include "cairn/error.hpp"
#include "cairn/plan.hpp"

namespace {

using namespace cairn;

// What came through goes out, and in again, as the same.
template <class Decode>
void round_trip(std::span<const std::byte> bytes, Decode&& decode) {
  const auto once = decode(bytes).encode();
  if (decode(once).encode() != once) std::abort();
}

RankState receiver() {
  RankState state(1);
  state.add_tensor("w", DType::float32, TensorLayout::replicated({8, 4}, 2));
  state.add_tensor("e", DType::float32, TensorLayout::replicated({0, 4}, 2));
  state.add_tensor("s", DType::float32, TensorLayout::replicated({}, 2));
  state.add_object("step", 8);
  return state;
}

void check_plan(std::span<const std::byte> bytes) {
  static const RankState state = receiver();
  round_trip(bytes, [](auto from) { return SavePlan::decode(from, state); });
  const SavePlan plan = SavePlan::decode(bytes, state);
  for (const WriteItem& item : plan.items()) {
    if (item.entry >= state.size()) std::abort();
    if (state.is_tensor(item.entry) && !inside(plan.box(state, item), state.shape(item.entry))) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data + 1, size - 1));
  try {
    if (data[0] == 's') round_trip(rest, [](auto from) { return RankState::decode(from); });
    if (data[0] == 'f') round_trip(rest, [](auto from) { return LoadFindings::decode(from); });
    if (data[0] == 'p') check_plan(rest);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt) std::abort();
  }
  return 0;
}
