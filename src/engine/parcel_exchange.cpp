// SPDX-License-Identifier: BSD-3-Clause
#include "engine/parcel_exchange.hpp"

#include <algorithm>
#include <new>

#include "engine/view_writer.hpp"
#include "parallel/polling.hpp"

namespace cairn {
namespace {

constexpr int kTag = 7;

bool is_plain(const Parcel& parcel) {
  return parcel.parts.size() == 1 && parcel.parts[0].device == nullptr && parcel.parts[0].is_contiguous();
}

}  // namespace

ParcelExchange::ParcelExchange(Communicator& comm, std::vector<Parcel> parcels)
    : comm_(comm),
      parcels_(std::move(parcels)),
      states_(std::make_unique<std::atomic<State>[]>(parcels_.size())) {
  make_room();
}

void ParcelExchange::make_room() {
  std::size_t receives = 0, sends = 0, most_targets = 0;
  std::uint64_t receive_bytes = 0, send_bytes = 0;  // of the longest that needs a buffer
  for (const Parcel& parcel : parcels_) {
    const std::uint64_t bytes = is_plain(parcel) ? 0 : parcel.bytes;
    if (parcel.from != Parcel::kReadHere) {
      ++receives;
      receive_bytes = std::max(receive_bytes, bytes);
    }
    if (parcel.to.empty()) continue;
    ++sends;
    send_bytes = std::max(send_bytes, bytes);
    most_targets = std::max(most_targets, parcel.to.size());
  }
  const auto fill = [](std::vector<Message>& messages, std::size_t count, std::uint64_t bytes,
                       std::size_t requests) {
    messages.resize(std::min(count, kParcelsInFlight));
    for (Message& message : messages) {
      message.buffer.resize(bytes);
      message.requests.reserve(requests);
    }
  };
  fill(receiving_, receives, receive_bytes, 1);
  fill(sending_, sends, send_bytes, most_targets);
}

ParcelExchange::Message* ParcelExchange::free_one(std::vector<Message>& messages) {
  const auto found = std::ranges::find_if(messages, [](const auto& one) { return one.requests.empty(); });
  return found == messages.end() ? nullptr : &*found;
}

bool ParcelExchange::advance() {
  bool moved = false;
  for (const auto step : {&ParcelExchange::start_receives, &ParcelExchange::end_receives,
                          &ParcelExchange::start_sends, &ParcelExchange::end_sends}) {
    try {
      moved = (this->*step)() || moved;
    } catch (const std::bad_alloc&) {  // what was not started is where it was
    }
  }
  return moved;
}

bool ParcelExchange::is_done() const {
  const auto is_idle = [](const Message& message) { return message.requests.empty(); };
  return next_receive_ == parcels_.size() && next_send_ == parcels_.size() &&
         std::ranges::all_of(receiving_, is_idle) && std::ranges::all_of(sending_, is_idle);
}

void ParcelExchange::finish() {
  while (!is_done()) {
    Backoff backoff(for_transfers);
    while (!advance() && !is_done()) backoff.pause();
  }
}

void ParcelExchange::throw_if_failed() const {
  if (failure_) std::rethrow_exception(failure_);
}

void ParcelExchange::throw_if_lost() const {
  if (loss_) std::rethrow_exception(loss_);
}

std::span<std::byte> ParcelExchange::memory(const Parcel& parcel, Bytes& buffer) const {
  if (is_plain(parcel)) return {parcel.parts[0].data, parcel.bytes};
  return std::span(buffer).first(parcel.bytes);
}

bool ParcelExchange::start_receives() {
  bool started = false;
  for (; next_receive_ < parcels_.size(); ++next_receive_) {
    const Parcel& parcel = parcels_[next_receive_];
    if (parcel.from == Parcel::kReadHere) continue;
    Message* const message = free_one(receiving_);
    if (message == nullptr) break;
    message->parcel = next_receive_;
    message->requests.push_back(comm_.start_receive(memory(parcel, message->buffer), parcel.from, kTag));
    started = true;
  }
  return started;
}

bool ParcelExchange::end_receives() {
  bool ended = false;
  for (Message& message : receiving_) {
    if (message.requests.empty()) continue;
    try {
      if (!message.requests[0]->test()) continue;
      receive(message);
    } catch (...) {
      if (!loss_) loss_ = std::current_exception();
      states_[message.parcel] = State::bad;
    }
    message.requests.clear();
    ended = true;
  }
  return ended;
}

void ParcelExchange::receive(const Message& message) {
  State state = State::bad;
  try {
    unpack(message);
    received_bytes_ += parcels_[message.parcel].bytes;
    state = State::complete;
  } catch (...) {
    if (!failure_) failure_ = std::current_exception();
  }
  states_[message.parcel] = state;
}

void ParcelExchange::unpack(const Message& message) {
  const Parcel& parcel = parcels_[message.parcel];
  if (is_plain(parcel)) return;
  const std::byte* from = message.buffer.data();
  for (const TensorView& part : parcel.parts) {
    copy_in(from, part);
    from += part.byte_count();
  }
}

bool ParcelExchange::is_lost(const Parcel& parcel, State state) const {
  return state == State::bad || (state == State::waiting && gave_up_ && parcel.from == Parcel::kReadHere);
}

bool ParcelExchange::start_sends() {
  bool started = false;
  for (; next_send_ < parcels_.size(); ++next_send_, next_target_ = 0) {
    const Parcel& parcel = parcels_[next_send_];
    if (parcel.to.empty()) continue;
    if (next_target_ == 0) {
      const State state = states_[next_send_];
      const bool lost = is_lost(parcel, state);
      if (state == State::waiting && !lost) break;
      outgoing_ = free_one(sending_);
      if (outgoing_ == nullptr) break;
      outgoing_bytes_ = lost ? std::span<const std::byte>() : packed(parcel, outgoing_->buffer);
    }
    for (; next_target_ < parcel.to.size(); ++next_target_)
      outgoing_->requests.push_back(comm_.start_send(outgoing_bytes_, parcel.to[next_target_], kTag));
    started = true;
  }
  return started;
}

// Nothing when the elements cannot be had.
std::span<const std::byte> ParcelExchange::packed(const Parcel& parcel, Bytes& buffer) {
  try {
    const auto bytes = memory(parcel, buffer);
    if (is_plain(parcel)) return bytes;
    std::byte* into = buffer.data();
    for (const TensorView& part : parcel.parts) {
      copy_out(part, into);
      into += part.byte_count();
    }
    return bytes;
  } catch (...) {
    if (!failure_) failure_ = std::current_exception();
    return {};
  }
}

bool ParcelExchange::end_sends() {
  bool ended = false;
  for (Message& message : sending_) {
    if (message.requests.empty()) continue;
    std::erase_if(message.requests, [](const auto& request) { return request->test(); });
    ended = message.requests.empty() || ended;
  }
  return ended;
}

}  // namespace cairn
