// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/letters.hpp"

#include <cstdint>
#include <utility>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"

namespace cairn {
namespace {

// Drops those that are done.
bool are_done(Requests& requests) {
  std::erase_if(requests, [](const auto& request) { return request->test(); });
  return requests.empty();
}

Bytes number(std::uint64_t value) {
  ByteWriter out;
  out.write(value);
  return out.take();
}

}  // namespace

OutgoingLetter::OutgoingLetter(Communicator& comm, Bytes bytes, int to, int tag)
    : comm_(comm), length_(number(bytes.size())), bytes_(std::move(bytes)), to_(to), tag_(tag) {}

bool OutgoingLetter::step() {
  if (!is_started_) {
    is_started_ = true;
    const auto send = [&](std::span<const std::byte> message) {
      return comm_.start_send(message, to_, tag_);
    };
    for_each_message(std::span<const std::byte>(length_), requests_, send);
    for_each_message(std::span<const std::byte>(bytes_), requests_, send);
  }
  return are_done(requests_);
}

IncomingLetter::IncomingLetter(Communicator& comm, int from, int tag)
    : comm_(comm), length_(number(0)), from_(from), tag_(tag) {}

bool IncomingLetter::step() {
  const auto receive = [&](std::span<std::byte> into) { return comm_.start_receive(into, from_, tag_); };
  if (stage_ == Stage::nothing) {
    stage_ = Stage::length;
    requests_.push_back(receive(length_));
  }
  if (!are_done(requests_)) return false;
  if (stage_ == Stage::length) {
    stage_ = Stage::bytes;
    bytes_.resize(ByteReader(length_, "length of a letter").read<std::uint64_t>());
    for_each_message(std::span(bytes_), requests_, receive);
  }
  return are_done(requests_);
}

}  // namespace cairn
