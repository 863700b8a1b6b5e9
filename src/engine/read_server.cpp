// SPDX-License-Identifier: BSD-3-Clause
#include "engine/read_server.hpp"

#include <algorithm>
#include <exception>

#include "base/byte_writer.hpp"
#include "engine/read_pauses.hpp"
#include "parallel/agree.hpp"
#include "parallel/attention.hpp"

namespace cairn {
namespace {

constexpr int kCoordinator = 0;

void set_number(std::span<std::byte> word, std::uint64_t number) {
  ByteWriter out;
  out.write(number);
  std::ranges::copy(out.view(), word.begin());
}

Bytes failure_text(const std::function<void()>& body) {
  try {
    body();
    return {};
  } catch (const Error& error) {
    return encode_error(error);
  } catch (const std::exception& error) {
    return encode_error(Error(ErrorKind::io, error.what()));
  }
}

}  // namespace

bool ReadServer::Answer::is_sent() {
  if (transfer) return false;
  if (std::ranges::all_of(sent, [](const auto& request) { return request->test(); })) sent.clear();
  return sent.empty();
}

ReadServer::ReadServer(Communicator& comm, const std::vector<int>& askers, int requests, const ReadFile& read,
                       const DeviceAnswers& devices)
    : comm_(comm),
      read_(read),
      devices_(devices),
      answers_(static_cast<std::size_t>(std::clamp(requests, 1, kMostRequests))) {
  for (const int rank : askers) {
    asking_.push_back({rank, {}, nullptr});
  }
  for (Asking& asking : asking_) await(asking);
}

bool ReadServer::step() {
  bool moved = false;
  for (std::size_t i = 0; i < asking_.size(); ++i) {  // all have their turn, however few the answers are
    Asking& asking = asking_[(first_ + i) % asking_.size()];
    moved = (asking.request && asking.request->test() && take(asking)) || moved;
  }
  if (!asking_.empty()) first_ = (first_ + 1) % asking_.size();
  for (Answer& answer : answers_) moved = (answer.transfer && advance(answer)) || moved;
  return moved;
}

bool ReadServer::is_moving() {
  return std::ranges::count_if(answers_, [](Answer& answer) { return !answer.is_sent(); }) > 0;
}

bool ReadServer::is_done() {
  const auto is_left = [](const Asking& asking) { return asking.request == nullptr; };
  return std::ranges::all_of(asking_, is_left) && !is_moving();
}

void ReadServer::await(Asking& asking) {
  asking.request = comm_.start_receive(asking.wire, asking.rank, kRequestTag);
}

// False: all answers are on their way, and the request waits.
bool ReadServer::take(Asking& asking) {
  const auto message = ReadMessage::decode(asking.wire);
  if (message.kind == ReadMessage::Kind::dismiss) {
    asking.request.reset();
    if (message.bytes > 0) take_failure(asking.rank, message.bytes);
    return true;
  }
  if (message.kind == ReadMessage::Kind::give_up) {
    break_link(encode_error(Error(ErrorKind::io, "given up by the rank that asked")));
    await(asking);
    return true;
  }
  const auto answer = std::ranges::find_if(answers_, &Answer::is_sent);
  if (answer == answers_.end()) return false;
  give(asking.rank, message, *answer);
  await(asking);
  return true;
}

void ReadServer::take_failure(int rank, std::uint64_t text_bytes) {
  Bytes text(text_bytes);
  comm_.start_receive(text, rank, kDismissalTag)->wait();
  if (!told_) told_ = decode_error(text);
}

void ReadServer::give(int rank, const ReadMessage& message, Answer& answer) {
  answer.rank = rank;
  answer.slot = message.slot;
  answer.text.clear();
  if (devices_.link == nullptr || !give_by_device(message, answer)) give_by_processor(message, answer);
}

// False: it has to go by the processor, or has failed.
bool ReadServer::give_by_device(const ReadMessage& message, Answer& answer) {
  const auto bytes = devices_.find(message.file, message.byte_offset, message.bytes);
  if (bytes.empty()) return false;
  answer.text = failure_text([&] { answer.transfer = devices_.link->start_send(bytes, answer.rank); });
  if (!answer.transfer) return false;
  set_number(answer.state, kByDevice | sent_by_device_++);
  answer.sent.push_back(comm_.start_send(answer.state, answer.rank, state_tag(answer.slot)));
  return true;
}

void ReadServer::give_by_processor(const ReadMessage& message, Answer& answer) {
  answer.bytes.resize(kMostAnswerBytes);
  const auto into = std::span(answer.bytes).first(std::min(message.bytes, kMostAnswerBytes));
  if (answer.text.empty())
    answer.text = failure_text([&] { read_(message.file, message.byte_offset, into); });
  set_number(answer.state, answer.text.size());
  // after a failure too: who asked waits for as many bytes as it asked for
  answer.sent.push_back(comm_.start_send(answer.state, answer.rank, state_tag(answer.slot)));
  answer.sent.push_back(comm_.start_send(into, answer.rank, bytes_tag(answer.slot)));
  send_text(answer);
}

void ReadServer::send_text(Answer& answer) {
  if (!answer.text.empty())
    answer.sent.push_back(comm_.start_send(answer.text, answer.rank, text_tag(answer.slot)));
}

// Whether the transfer has ended.
bool ReadServer::advance(Answer& answer) {
  bool is_done = false;
  const Bytes failure = failure_text([&] { is_done = answer.transfer->is_done(); });
  if (!failure.empty())
    break_link(failure);
  else if (is_done)
    end(answer, {});
  return answer.transfer == nullptr;
}

void ReadServer::end(Answer& answer, const Bytes& failure) {
  answer.transfer.reset();
  answer.text = failure;
  set_number(answer.end, failure.size());
  answer.sent.push_back(comm_.start_send(answer.end, answer.rank, text_tag(answer.slot)));
  send_text(answer);
}

void ReadServer::break_link(const Bytes& failure) {
  devices_.link = nullptr;
  for (Answer& answer : answers_) {
    if (answer.transfer) end(answer, failure);
  }
}

void serve_reads(Communicator& comm, int requests, const ReadFile& read, const DeviceAnswers& devices) {
  ReadServer server(comm, {kCoordinator}, requests, read, devices);
  ReadPauses pauses;
  while (!server.is_done()) {
    if (server.step())
      pauses.end();
    else
      pauses.pause(server.is_moving());
    attend();
  }
  if (server.told()) throw Error(*server.told());
}

}  // namespace cairn
