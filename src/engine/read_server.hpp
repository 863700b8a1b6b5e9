// SPDX-License-Identifier: BSD-3-Clause
// The side that is asked by RemoteReads (remote_reads.hpp): it reads ranges of its files and sends them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cairn/communicator.hpp"
#include "cairn/device.hpp"
#include "cairn/error.hpp"
#include "engine/read_messages.hpp"

namespace cairn {

/// Of one answer; longer reads are cut.
inline constexpr std::uint64_t kMostAnswerBytes = 1 << 20;
/// Requests on their way to one rank at a time, at most.
inline constexpr int kMostRequests = 8;

/// Reads bytes of a file by its number.
using ReadFile =
    std::function<void(std::uint32_t file, std::uint64_t byte_offset, std::span<std::byte> into)>;

/// How a rank that is asked answers from its device.
struct DeviceAnswers {
  DeviceLink* link = nullptr;  ///< of the ranks of the communicator; null: there is none
  /// Where a range of a file lies in memory that the link reaches; empty where it does not.
  std::function<std::span<const std::byte>(std::uint32_t file, std::uint64_t byte_offset,
                                           std::uint64_t bytes)>
      find = {};
};

/// Answers ranks until they dismiss this one, a step at a time. One thread uses it.
class ReadServer {
 public:
  /// Local. `askers`: the ranks that may ask. `read` outlives it.
  ReadServer(Communicator& comm, const std::vector<int>& askers, int requests, const ReadFile& read,
             const DeviceAnswers& devices = {});

  /// Whether anything moved.
  bool step();
  bool is_moving();
  bool is_done();
  /// What a rank said of a read that failed here.
  const std::optional<Error>& told() const { return told_; }

 private:
  struct Answer {
    int rank = 0;  // that it is for
    std::uint32_t slot = 0;
    Bytes bytes, text;
    std::array<std::byte, sizeof(std::uint64_t)> state, end;
    std::vector<std::unique_ptr<Request>> sent;
    std::unique_ptr<DeviceLink::Transfer> transfer;  // until it has ended

    bool is_sent();
  };
  struct Asking {
    int rank;
    std::array<std::byte, ReadMessage::kBytes> wire;
    std::unique_ptr<Request> request;  // null: it asks no more
  };

  void await(Asking& asking);
  bool take(Asking& asking);
  void take_failure(int rank, std::uint64_t text_bytes);
  void give(int rank, const ReadMessage& message, Answer& answer);
  bool give_by_device(const ReadMessage& message, Answer& answer);
  void give_by_processor(const ReadMessage& message, Answer& answer);
  void send_text(Answer& answer);
  bool advance(Answer& answer);
  void end(Answer& answer, const Bytes& failure);
  void break_link(const Bytes& failure);

  Communicator& comm_;
  const ReadFile& read_;
  DeviceAnswers devices_;  // without a link, too, when it is of no more use
  std::uint64_t sent_by_device_ = 0;
  std::vector<Asking> asking_;
  std::vector<Answer> answers_;
  std::size_t first_ = 0;
  std::optional<Error> told_;
};

/// Local, on a rank other than 0: answers the coordinator's requests with `read` until it dismisses this
/// rank. An Error of `read` becomes the answer. The thread is attended. Holds `requests` buffers of
/// kMostAnswerBytes at most. What `devices` finds goes by its link.
void serve_reads(Communicator& comm, int requests, const ReadFile& read, const DeviceAnswers& devices = {});

}  // namespace cairn
