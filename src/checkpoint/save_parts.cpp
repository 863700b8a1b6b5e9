// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/save_parts.hpp"

#include "formats/dcp/item_writer.hpp"
#include "parallel/agree.hpp"
#include "pickle/plain_object.hpp"

namespace cairn {

SharedPlan plan_together(Communicator& comm, const RankState& state, const SavePlanOptions& options) {
  SharedPlan plan;
  const auto states = comm.gather(state.encode(), 0);
  const Bytes mine = on_root_for_each("planning", comm, 0, [&] {
    std::vector<RankState> decoded;
    for (const Bytes& one : states) decoded.push_back(RankState::decode(one));
    plan.whole = std::make_shared<const GlobalSavePlan>(plan_save(decoded, options));
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
