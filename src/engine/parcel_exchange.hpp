// SPDX-License-Identifier: BSD-3-Clause
// What several ranks want alike, on its way from the rank that read it to the others. Messages only: no
// collective is open while ranks read.
//
// Parcels have one order, the same on all ranks. A rank sends them in that order and receives them in that
// order, a few at a time; so there is always one that can move, and every rank holds a bounded number of
// buffers, which it has from the beginning. A rank that has failed sends empty messages instead: nobody waits
// for bytes that will not come.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "base/byte_writer.hpp"
#include "cairn/communicator.hpp"
#include "cairn/tensor.hpp"

namespace cairn {

/// So many parcels may be on their way to, and so many from, a rank at a time.
inline constexpr std::size_t kParcelsInFlight = 8;

/// Some elements of tensors, as one rank has to do with them.
struct Parcel {
  static constexpr int kReadHere = -1;

  int from = kReadHere;  ///< the rank that sends it to this one
  std::vector<int> to;   ///< the ranks that this one sends it to, next
  std::vector<TensorView>
      parts;                ///< where its elements lie in this rank's tensors, in an order all ranks share
  std::uint64_t bytes = 0;  ///< of all parts
};

class ParcelExchange {
 public:
  /// `parcels` in the common order; only those of this rank. `comm` is for the exchange alone and outlives
  /// it. Takes all the memory that the exchange needs: what comes later cannot fail for want of buffers.
  ParcelExchange(Communicator& comm, std::vector<Parcel> parcels);

  const std::vector<Parcel>& parcels() const { return parcels_; }
  /// Any thread: a parcel that is read here is there.
  void complete(std::size_t parcel) { states_[parcel] = State::complete; }
  /// Any thread: those that are not complete will never be.
  void give_up() { gave_up_ = true; }

  /// The thread that may use `comm`: moves what can be moved. Whether anything did. A message for which
  /// `comm` has no memory now is left for the next call. Throws what `comm` throws else.
  bool advance();
  /// All that is to be sent and received has been.
  bool is_done() const;
  /// Calls advance() until is_done().
  void finish();

  std::uint64_t received_bytes() const { return received_bytes_; }
  /// Throws what went wrong here first: taking elements out of this rank's memory, or putting them there.
  void throw_if_failed() const;
  /// Throws the first message that did not come as it should: the rank that it comes from has failed, in
  /// reading or as throw_if_failed() tells there, or it is a relay of one that has. To be asked last.
  void throw_if_lost() const;

 private:
  enum class State : std::uint8_t { waiting, complete, bad };
  struct Message {
    std::size_t parcel;
    Bytes buffer;  // for what is not sent from, or to, the tensor's own memory
    std::vector<std::unique_ptr<Request>> requests;  // none: free for another parcel
  };

  void make_room();
  static Message* free_one(std::vector<Message>& messages);
  bool start_receives();
  bool end_receives();
  bool start_sends();
  bool end_sends();
  std::span<std::byte> memory(const Parcel& parcel, Bytes& buffer) const;
  std::span<const std::byte> packed(const Parcel& parcel, Bytes& buffer);
  bool is_lost(const Parcel& parcel, State state) const;
  void receive(const Message& message);
  void unpack(const Message& message);

  Communicator& comm_;
  std::vector<Parcel> parcels_;
  std::unique_ptr<std::atomic<State>[]> states_;
  std::atomic<bool> gave_up_{false};
  std::vector<Message> receiving_, sending_;
  std::size_t next_receive_ = 0, next_send_ = 0;
  Message* outgoing_ = nullptr;  // of parcel next_send_, with what it sends:
  std::span<const std::byte> outgoing_bytes_;
  std::size_t next_target_ = 0;
  std::uint64_t received_bytes_ = 0;
  std::exception_ptr failure_, loss_;
};

}  // namespace cairn
