// SPDX-License-Identifier: BSD-3-Clause
#include "engine/parcel_exchange.hpp"

#include <algorithm>

#include "engine/view_writer.hpp"
#include "parallel/agree.hpp"
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
      states_(std::make_unique<std::atomic<State>[]>(parcels_.size())) {}

bool ParcelExchange::advance() {
  bool moved = start_receives();
  moved = end_receives() || moved;
  moved = start_sends() || moved;
  return end_sends() || moved;
}

bool ParcelExchange::is_done() const {
  return next_receive_ == parcels_.size() && next_send_ == parcels_.size() && receiving_.empty() &&
         sending_.empty();
}

void ParcelExchange::finish() {
  while (!is_done()) {
    Backoff backoff(for_transfers);
    while (!advance() && !is_done()) backoff.pause();
  }
}

void ParcelExchange::throw_if_failed() const {
  if (failure_) throw Error(*failure_);
}

void ParcelExchange::throw_if_lost() const {
  if (loss_) throw Error(*loss_);
}

std::span<std::byte> ParcelExchange::memory(const Parcel& parcel, Bytes& buffer) const {
  if (is_plain(parcel)) return {parcel.parts[0].data, parcel.bytes};
  buffer.resize(parcel.bytes);
  return buffer;
}

bool ParcelExchange::start_receives() {
  bool started = false;
  for (; next_receive_ < parcels_.size() && receiving_.size() < kParcelsInFlight; ++next_receive_) {
    const Parcel& parcel = parcels_[next_receive_];
    if (parcel.from == Parcel::kReadHere) continue;
    Message& message = receiving_.emplace_back();
    message.parcel = next_receive_;
    message.requests.push_back(comm_.start_receive(memory(parcel, message.buffer), parcel.from, kTag));
    started = true;
  }
  return started;
}

bool ParcelExchange::end_receives() {
  const auto ended = [this](Message& message) {
    State state = State::bad;
    bool has_come = false;
    try {
      if (!message.requests[0]->test()) return false;
      has_come = true;
      unpack(message);
      received_bytes_ += parcels_[message.parcel].bytes;
      state = State::complete;
    } catch (...) {
      auto& failure = has_come ? failure_ : loss_;
      if (!failure) failure = current_error();
    }
    states_[message.parcel] = state;
    return true;
  };
  return std::erase_if(receiving_, ended) > 0;
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

bool ParcelExchange::start_sends() {
  bool started = false;
  for (; next_send_ < parcels_.size() && sending_.size() < kParcelsInFlight; ++next_send_) {
    const Parcel& parcel = parcels_[next_send_];
    if (parcel.to.empty()) continue;
    const State state = states_[next_send_];
    const bool is_lost = state == State::bad || (state == State::waiting && gave_up_ && parcel.from < 0);
    if (state == State::waiting && !is_lost) break;
    Message& message = sending_.emplace_back();
    message.parcel = next_send_;
    const auto bytes = is_lost ? std::span<const std::byte>() : packed(parcel, message.buffer);
    for (const int rank : parcel.to) message.requests.push_back(comm_.start_send(bytes, rank, kTag));
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
    if (!failure_) failure_ = current_error();
    return {};
  }
}

bool ParcelExchange::end_sends() {
  const auto ended = [](Message& message) {
    std::erase_if(message.requests, [](const auto& request) { return request->test(); });
    return message.requests.empty();
  };
  return std::erase_if(sending_, ended) > 0;
}

}  // namespace cairn
