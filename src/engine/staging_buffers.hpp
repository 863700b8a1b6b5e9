// SPDX-License-Identifier: BSD-3-Clause
// Memory through which bytes go from threads that copy to threads that write: blocks of it are taken in turn,
// filled, drained and taken again, so that one part is filled while another drains. Local.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <span>

namespace cairn {

/// Blocks have numbers, from 0 on in the order in which they are taken. Those that write wait for a block by
/// its number, and should drain low numbers first: memory comes free in their order. All calls but take() may
/// come from any thread.
class StagingBuffers {
 public:
  struct Block {
    std::uint64_t number;
    std::span<std::byte> bytes;
  };

  /// `room` outlives the object.
  explicit StagingBuffers(std::span<std::byte> room) : room_(room) {}

  std::uint64_t size() const { return room_.size(); }

  /// The next block, of `bytes`, at most size(); when there is room for it. nullopt once stopped. By one
  /// thread at a time.
  std::optional<Block> take(std::uint64_t bytes);
  void set_filled(std::uint64_t number);
  /// No block will be taken any more, and none that was is being filled.
  void finish_filling();

  /// The bytes of a block, when it has been filled; it need not be taken yet. Throws what stopped.
  std::span<const std::byte> await(std::uint64_t number);
  void set_drained(std::uint64_t number);
  void await_filling_finished();

  enum class Side : std::uint8_t { fill, drain };
  /// Something has failed: nobody waits for room or blocks any more. The first failure counts.
  void stop(Side side, std::exception_ptr failure);
  /// The side that stopped.
  std::optional<Side> stopped() const;
  /// Throws what stopped, if anything did.
  void require_going() const;

  std::uint64_t taken_bytes() const;
  double waited_s() const;  ///< for room

 private:
  // Positions grow for ever; a byte's place in the room is its position modulo size().
  struct State {
    std::uint64_t begin, bytes;
    bool is_filled = false, is_drained = false;
  };
  std::uint64_t begin_of_next(std::uint64_t bytes) const;
  bool has_room(std::uint64_t bytes) const;
  State& state_of(std::uint64_t number) { return states_[number - first_]; }

  const std::span<std::byte> room_;
  mutable std::mutex mutex_;
  std::condition_variable drained_, filled_;
  std::deque<State> states_;  // from block first_ on
  std::uint64_t first_ = 0, end_ = 0, taken_bytes_ = 0;
  double waited_s_ = 0;
  bool filling_finished_ = false;
  std::optional<Side> stopped_;
  std::exception_ptr failure_;
};

}  // namespace cairn
