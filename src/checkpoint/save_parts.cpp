// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/save_parts.hpp"

#include <algorithm>
#include <atomic>

#include "base/workers.hpp"
#include "engine/transfer.hpp"
#include "formats/dcp/item_writer.hpp"
#include "parallel/agree.hpp"
#include "pickle/plain_object.hpp"

namespace cairn {
namespace {

constexpr std::size_t kWorthThreads = 1 << 20;  // bytes of states; fewer are decoded in a few milliseconds

int decoding_threads(std::span<const Bytes> states) {
  std::size_t bytes = 0;
  for (const Bytes& one : states) bytes += one.size();
  if (bytes < kWorthThreads) return 1;
  return static_cast<int>(std::min(states.size(), static_cast<std::size_t>(default_threads(1))));
}

}  // namespace

std::vector<RankState> decode_states(std::span<const Bytes> states) {
  std::vector<RankState> decoded;
  for (std::size_t i = 0; i < states.size(); ++i) decoded.emplace_back(static_cast<int>(i));
  std::atomic<std::size_t> next = 0;
  const auto decode = [&](const std::atomic<bool>& stop) {
    for (std::size_t i = next++; i < states.size() && !stop; i = next++)
      decoded[i] = RankState::decode(states[i]);
  };
  const int threads = decoding_threads(states);
  if (threads > 1) {
    run_workers(threads, decode);
  } else {
    decode(false);
  }
  return decoded;
}

SharedPlan plan_together(Communicator& comm, const RankState& state, const SavePlanOptions& options) {
  SharedPlan plan;
  const auto states = comm.gather(state.encode(), 0);
  const Bytes mine = on_root_for_each("planning", comm, 0, [&] {
    plan.whole = std::make_shared<const GlobalSavePlan>(plan_save(decode_states(states), options));
    std::vector<Bytes> out;
    for (const SavePlan& part : plan.whole->parts) out.push_back(part.encode());
    return out;
  });
  on_all_ranks("taking up the plan", comm,
               [&] { plan.part = std::make_shared<const SavePlan>(SavePlan::decode(mine, state)); });
  return plan;
}

ShardItem content_of(const LiveState& state, const SavePlan& plan, const WriteItem& item) {
  const RankState& known = state.description();
  if (!known.is_tensor(item.entry)) return {{}, stored_object(state.object(item.entry))};
  const BoxView part = plan.box(known, item);
  if (item.bytes == 0)
    return {TensorView::contiguous(known.dtype(item.entry), {part.sizes.begin(), part.sizes.end()}, nullptr)};
  const TensorView& view = state.view(item.entry, item.box);
  if (item.part_at == WriteItem::kWholeBox) return {view};
  const BoxView box = known.box(item.entry, item.box);
  std::vector<std::int64_t> offsets(part.offsets.begin(), part.offsets.end());
  for (std::size_t d = 0; d < offsets.size(); ++d) offsets[d] -= box.offsets[d];
  return {view.part(offsets, part.sizes)};
}

Bytes stored_object(const Object& object) {
  if (object.is<Object::Stored>()) return object.as<Object::Stored>().bytes;
  pickle::Arena arena;
  return dcp::object_item(arena, pickle::add_object(arena, object));
}

}  // namespace cairn
