// SPDX-License-Identifier: BSD-3-Clause
// Ranks of a node that want parts of the same chunks which are no runs in the file (columns of rows): each
// chunk is read once, into memory that all of them see, and each takes what it wants from there.
//
// The chunks are cut into units with one order, the same on all ranks. Unit u goes through slot u mod slots.
// Any thread of any rank reads units, each takes its rank's parts in order. The lowest unit that somebody
// still waits for can always be read, or is there: nobody waits for ever unless a thread never comes back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/metadata.hpp"

namespace cairn {

/// The elements of one unit at most: a reader's core keeps them in its cache until others have them.
inline constexpr std::uint64_t kJointSlotBytes = 256 << 10;
/// Units that one thread takes on at once, so that its reads follow each other in the file.
inline constexpr std::uint64_t kJointClaim = 2;

/// What the ranks of a node want of one chunk. Boxes are in the coordinates of the chunk.
struct JointChunk {
  std::uint32_t tensor;    ///< of the catalogue
  std::uint64_t chunk;     ///< of the catalogue
  Box box;                 ///< the smallest that holds all parts: it is read
  std::vector<Box> parts;  ///< of all ranks; not empty
};

/// One of the parts: what this rank wants.
struct JointPart {
  std::size_t joint;   ///< index into the chunks
  std::uint32_t item;  ///< the caller's
  Box box;             ///< one of the chunk's parts
};

/// What one rank has of it. Any thread may call anything.
class JointReads {
 public:
  struct Unit {
    const JointChunk* chunk;
    Box piece;  ///< of the chunk's box, in the coordinates of the chunk
    std::uint64_t number;
    std::span<std::byte> memory;  ///< its elements, row-major
  };
  struct Taken {
    Unit unit;
    const JointPart* part;
    Box box;  ///< what the part has of the piece, in the coordinates of the chunk
  };
  /// Units that a thread has taken on to read.
  struct Claim {
    std::uint64_t next = 0, end = 0;
  };

  static std::size_t shared_bytes(int ranks);

  /// `shared`: the same memory on all ranks of the node, of shared_bytes(), zero at first. `chunks`: the same
  /// on all; they and `mine`, in the order of the chunks, are kept.
  JointReads(std::span<std::byte> shared, const Catalog& catalog, std::vector<JointChunk> chunks,
             std::vector<JointPart> mine);

  std::span<const JointPart> mine() const { return mine_; }
  /// In how many units a part of this rank comes.
  std::uint32_t unit_count(const JointPart& part) const;

  /// The next unit of the claim, or of a new one, if its slot is free: to be filled and published.
  std::optional<Unit> next_to_read(Claim& claim);
  void publish(const Unit& unit);
  /// The next of this rank's parts, if it is there: to be copied, and then given back.
  std::optional<Taken> next_to_take();
  void give_back(const Unit& unit);

  /// Nothing is left for this rank to read or to take.
  bool is_finished(const Claim& claim);

  /// What this rank took on will not come: all ranks of the node may stop.
  void give_up();
  bool is_lost() const;

 private:
  struct Slot;
  struct Head;
  struct Group {  // the parts of this rank in one chunk
    std::size_t joint, begin, end;
  };

  Slot& slot(std::uint64_t unit) const;
  Unit unit_of(std::uint64_t number) const;
  Unit unit_of(std::size_t joint, std::uint64_t piece) const;
  void advance();

  Head* head_;
  Slot* slots_;
  std::uint64_t slot_count_;
  std::span<std::byte> memory_;
  const Catalog& catalog_;
  const std::vector<JointChunk> chunks_;
  const std::vector<JointPart> mine_;
  std::vector<std::uint64_t> first_unit_;  // of each chunk, and the count of all
  std::vector<Group> groups_;
  std::mutex mutex_;
  std::optional<Taken> next_;  // guarded, with what comes after it:
  std::size_t group_ = 0;      // and of it
  std::uint64_t step_ = 0;     // piece by piece, part by part of each
};

}  // namespace cairn
