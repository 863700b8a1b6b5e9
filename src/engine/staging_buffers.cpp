// SPDX-License-Identifier: BSD-3-Clause
#include "engine/staging_buffers.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace cairn {

// A block does not reach over the end of the room: what is left there stays unused.
std::uint64_t StagingBuffers::begin_of_next(std::uint64_t bytes) const {
  const std::uint64_t size = std::max<std::uint64_t>(room_.size(), 1), place = end_ % size;
  return place + bytes <= size ? end_ : end_ - place + size;
}

bool StagingBuffers::has_room(std::uint64_t bytes) const {
  if (states_.empty() || bytes == 0) return true;
  return begin_of_next(bytes) + bytes <= states_.front().begin + room_.size();
}

std::optional<StagingBuffers::Block> StagingBuffers::take(std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  if (!stopped_ && !has_room(bytes)) {
    const auto start = std::chrono::steady_clock::now();
    drained_.wait(lock, [&] { return stopped_ || has_room(bytes); });
    waited_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (stopped_) return std::nullopt;
  const std::uint64_t begin = bytes == 0 ? end_ : begin_of_next(bytes);
  end_ = begin + bytes;
  taken_bytes_ += bytes;
  states_.push_back({begin, bytes});
  const std::uint64_t place = bytes == 0 ? 0 : begin % room_.size();
  return Block{first_ + states_.size() - 1, room_.subspan(place, bytes)};
}

void StagingBuffers::set_filled(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  state_of(number).is_filled = true;
  filled_.notify_all();
}

void StagingBuffers::finish_filling() {
  const std::lock_guard lock(mutex_);
  filling_finished_ = true;
  filled_.notify_all();
}

std::span<const std::byte> StagingBuffers::await(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  const auto is_filled = [&] { return number - first_ < states_.size() && state_of(number).is_filled; };
  filled_.wait(lock, [&] { return stopped_ || is_filled(); });
  if (stopped_) std::rethrow_exception(failure_);
  const State& state = state_of(number);
  return state.bytes == 0 ? std::span<const std::byte>{}
                          : room_.subspan(state.begin % room_.size(), state.bytes);
}

void StagingBuffers::set_drained(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  state_of(number).is_drained = true;
  for (; !states_.empty() && states_.front().is_drained; ++first_) states_.pop_front();
  drained_.notify_all();
}

void StagingBuffers::await_filling_finished() {
  std::unique_lock lock(mutex_);
  filled_.wait(lock, [&] { return filling_finished_; });
}

void StagingBuffers::stop(Side side, std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  stopped_ = side;
  failure_ = std::move(failure);
  filled_.notify_all();
  drained_.notify_all();
}

std::optional<StagingBuffers::Side> StagingBuffers::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void StagingBuffers::require_going() const {
  const std::lock_guard lock(mutex_);
  if (stopped_) std::rethrow_exception(failure_);
}

std::uint64_t StagingBuffers::taken_bytes() const {
  const std::lock_guard lock(mutex_);
  return taken_bytes_;
}

double StagingBuffers::waited_s() const {
  const std::lock_guard lock(mutex_);
  return waited_s_;
}

}  // namespace cairn
