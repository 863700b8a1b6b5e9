// SPDX-License-Identifier: BSD-3-Clause
#include "engine/joint_reads.hpp"

#include <algorithm>

#include "engine/box_pieces.hpp"

namespace cairn {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::uint64_t kSlotsOfRank = 4, kFewestSlots = 8, kMostSlots = 64;

BoxPieces pieces_of(const Catalog& catalog, const JointChunk& chunk) {
  const auto element_bytes = element_size(catalog.tensors()[chunk.tensor].dtype);
  return {chunk.box.sizes, static_cast<std::int64_t>(kJointSlotBytes / element_bytes)};
}

}  // namespace

// Of what ranks share, only lock-free atomics are touched by several at a time.
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

struct alignas(kLine) JointReads::Head {
  std::atomic<std::uint64_t> next_claim, lost;
};

// Unit u finds it at turn 2 * (u / slots) when it is free, and leaves it at the next but one.
struct alignas(kLine) JointReads::Slot {
  std::atomic<std::uint64_t> turn, left;
};

std::size_t JointReads::shared_bytes(int ranks) {
  const auto slots = std::clamp(kSlotsOfRank * static_cast<std::uint64_t>(ranks), kFewestSlots, kMostSlots);
  return kLine + slots * (kLine + kJointSlotBytes);
}

JointReads::JointReads(std::span<std::byte> shared, const Catalog& catalog, std::vector<JointChunk> chunks,
                       std::vector<JointPart> mine)
    : head_(reinterpret_cast<Head*>(shared.data())),
      slots_(reinterpret_cast<Slot*>(shared.data() + kLine)),
      slot_count_((shared.size() - kLine) / (kLine + kJointSlotBytes)),
      memory_(shared.last(slot_count_ * kJointSlotBytes)),
      catalog_(catalog),
      chunks_(std::move(chunks)),
      mine_(std::move(mine)) {
  first_unit_.push_back(0);
  for (const JointChunk& chunk : chunks_)
    first_unit_.push_back(first_unit_.back() + pieces_of(catalog_, chunk).count());
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    if (groups_.empty() || groups_.back().joint != mine_[i].joint) groups_.push_back({mine_[i].joint, i, i});
    groups_.back().end = i + 1;
  }
  advance();
}

std::uint32_t JointReads::unit_count(const JointPart& part) const {
  const JointChunk& chunk = chunks_[part.joint];
  const std::uint64_t pieces = pieces_of(catalog_, chunk).count();
  std::uint32_t count = 0;
  for (std::uint64_t i = 0; i < pieces; ++i) count += overlaps(unit_of(part.joint, i).piece, part.box);
  return count;
}

JointReads::Slot& JointReads::slot(std::uint64_t unit) const { return slots_[unit % slot_count_]; }

JointReads::Unit JointReads::unit_of(std::uint64_t number) const {
  const auto joint =
      static_cast<std::size_t>(std::ranges::upper_bound(first_unit_, number) - first_unit_.begin() - 1);
  return unit_of(joint, number - first_unit_[joint]);
}

JointReads::Unit JointReads::unit_of(std::size_t joint, std::uint64_t piece) const {
  const JointChunk& chunk = chunks_[joint];
  const std::uint64_t number = first_unit_[joint] + piece;
  Unit unit{&chunk, pieces_of(catalog_, chunk).piece(piece), number,
            memory_.subspan(number % slot_count_ * kJointSlotBytes, kJointSlotBytes)};
  for (std::size_t d = 0; d < unit.piece.offsets.size(); ++d) unit.piece.offsets[d] += chunk.box.offsets[d];
  return unit;
}

// --- reading ----------------------------------------------------------------------------------------------

std::optional<JointReads::Unit> JointReads::next_to_read(Claim& claim) {
  const std::uint64_t count = first_unit_.back();
  if (claim.next == claim.end) {
    if (head_->next_claim >= count) return std::nullopt;
    claim.next = std::min(head_->next_claim.fetch_add(kJointClaim), count);
    claim.end = std::min(claim.next + kJointClaim, count);
    if (claim.next == claim.end) return std::nullopt;
  }
  if (slot(claim.next).turn.load(std::memory_order_acquire) != claim.next / slot_count_ * 2)
    return std::nullopt;
  return unit_of(claim.next++);
}

// Between the parts there may be pieces that nobody wants: their slot is free again.
void JointReads::publish(const Unit& unit) {
  const auto wanted = static_cast<std::uint64_t>(
      std::ranges::count_if(unit.chunk->parts, [&](const Box& part) { return overlaps(unit.piece, part); }));
  Slot& to = slot(unit.number);
  to.left.store(wanted, std::memory_order_relaxed);
  to.turn.store(unit.number / slot_count_ * 2 + (wanted == 0 ? 2 : 1), std::memory_order_release);
}

// --- taking -----------------------------------------------------------------------------------------------

std::optional<JointReads::Taken> JointReads::next_to_take() {
  const std::lock_guard lock(mutex_);
  if (!next_) return std::nullopt;
  const std::uint64_t number = next_->unit.number;
  if (slot(number).turn.load(std::memory_order_acquire) != number / slot_count_ * 2 + 1) return std::nullopt;
  auto taken = std::move(next_);
  advance();
  return taken;
}

void JointReads::advance() {
  next_.reset();
  for (; group_ < groups_.size(); ++group_, step_ = 0) {
    const auto [joint, begin, end] = groups_[group_];
    const std::uint64_t parts = end - begin, steps = (first_unit_[joint + 1] - first_unit_[joint]) * parts;
    while (step_ < steps) {
      const std::uint64_t step = step_++;
      Taken found{unit_of(joint, step / parts), &mine_[begin + step % parts], {}};
      if (!intersect(found.unit.piece, found.part->box, found.box)) continue;
      next_ = std::move(found);
      return;
    }
  }
}

void JointReads::give_back(const Unit& unit) {
  Slot& from = slot(unit.number);
  if (from.left.fetch_sub(1, std::memory_order_acq_rel) == 1)
    from.turn.store(unit.number / slot_count_ * 2 + 2, std::memory_order_release);
}

// --- the end ----------------------------------------------------------------------------------------------

bool JointReads::is_finished(const Claim& claim) {
  if (claim.next != claim.end || head_->next_claim < first_unit_.back()) return false;
  const std::lock_guard lock(mutex_);
  return !next_;
}

void JointReads::give_up() { head_->lost = 1; }
bool JointReads::is_lost() const { return head_->lost != 0; }

}  // namespace cairn
