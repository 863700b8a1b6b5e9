// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "cairn/mpi.hpp"
#include "failure_of.hpp"
#include "mpi/mpi_communicator.hpp"
#include "world.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t cut = 8;

std::unique_ptr<Communicator> with_small_cut() {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  return std::make_unique<MpiCommunicator>(copy, cut);
}

/// Differs by rank and position.
Bytes pattern(int rank, std::size_t length) {
  Bytes bytes(length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(31 * rank + static_cast<int>(i));
  return bytes;
}

const std::size_t lengths_around_the_cut[] = {0, 1, cut - 1, cut, cut + 1, 2 * cut, 5 * cut + 3};

TEST(Communicator, KnowsItsRanks) {
  int rank = -1, size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT_EQ(world().rank(), rank);
  EXPECT_EQ(world().size(), size);
  EXPECT_EQ(world().ranks_on_node(), size);
}

TEST(Communicator, AgreesOnTheOrOfAllWords) {
  const auto mine = std::uint64_t{1} << (63 - world().rank());
  std::uint64_t expected = 0;
  for (int rank = 0; rank < world().size(); ++rank) expected |= std::uint64_t{1} << (63 - rank);
  EXPECT_EQ(agree(world(), mine), expected);
  EXPECT_EQ(agree(world(), 0), 0u);
}

TEST(Communicator, SeveralAgreementsRunAtOnce) {
  std::uint64_t first = 0, second = 0;
  const auto bit = std::uint64_t{1} << world().rank();
  const auto one = world().start_agree(bit, first);
  const auto two = world().start_agree(bit << 32, second);
  two->wait();
  one->wait();
  EXPECT_TRUE(one->test());
  EXPECT_EQ(first << 32, second);
}

TEST(Communicator, BroadcastsAnyLengthFromAnyRank) {
  const auto comm = with_small_cut();
  for (int root = 0; root < comm->size(); ++root) {
    for (const auto length : lengths_around_the_cut) {
      Bytes bytes = comm->rank() == root ? pattern(root, length) : Bytes(3, std::byte{99});
      comm->broadcast(bytes, root);
      EXPECT_EQ(bytes, pattern(root, length)) << root << ' ' << length;
    }
  }
}

TEST(Communicator, BroadcastsMoreThanOneDefaultPiece) {
  constexpr std::size_t length = MpiCommunicator::default_piece_bytes + 1;
  Bytes bytes = world().rank() == 0 ? pattern(0, length) : Bytes{};
  world().broadcast(bytes, 0);
  EXPECT_TRUE(bytes == pattern(0, length));
}

TEST(Communicator, RanksOfANodeShareMemory) {
  const auto node = world().on_node();
  EXPECT_EQ(node->size(), world().ranks_on_node());
  const auto memory = node->share_memory(100'000);
  ASSERT_NE(memory, nullptr);
  const std::span<std::byte> bytes = memory->bytes();
  ASSERT_EQ(bytes.size(), 100'000u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % 64, 0u);
  EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; }));
  barrier(*node);
  const auto mine = static_cast<std::size_t>(node->rank());
  bytes[bytes.size() - 1 - mine] = static_cast<std::byte>(mine + 1);
  barrier(*node);
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(node->size()); ++rank)
    EXPECT_EQ(bytes[bytes.size() - 1 - rank], static_cast<std::byte>(rank + 1));
}

TEST(Communicator, GathersOneEntryARank) {
  const auto comm = with_small_cut();
  for (int root = 0; root < comm->size(); ++root) {
    for (const auto length : lengths_around_the_cut) {
      const auto parts = comm->gather(pattern(comm->rank(), length), root);
      ASSERT_EQ(parts.size(), comm->rank() == root ? static_cast<std::size_t>(comm->size()) : 0u);
      for (std::size_t rank = 0; rank < parts.size(); ++rank) {
        EXPECT_EQ(parts[rank], pattern(static_cast<int>(rank), length));
      }
    }
  }
}

TEST(Communicator, GathersDifferentLengths) {
  const auto comm = with_small_cut();
  const auto length_of = [](int rank) { return static_cast<std::size_t>(rank % 2 == 0 ? 0 : 40 * rank); };
  const auto parts = comm->gather(pattern(comm->rank(), length_of(comm->rank())), 0);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const int rank = static_cast<int>(part);
    EXPECT_EQ(parts[part], pattern(rank, length_of(rank)));
  }
}

TEST(Communicator, SendsAroundARing) {
  const int size = world().size(), rank = world().rank();
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  for (const std::size_t length : {0u, 1u, 100'000u}) {
    Bytes received(length);
    const Bytes sent = pattern(rank, length);
    const auto receive = world().start_receive(received, before, 999);
    const auto send = world().start_send(sent, next, 999);
    receive->wait();
    send->wait();
    EXPECT_TRUE(received == pattern(before, length)) << length;
  }
}

TEST(Communicator, TagsKeepMessagesApart) {
  const int rank = world().rank();
  const Bytes one = pattern(1, 4), two = pattern(2, 6);
  Bytes first(4), second(6);
  const auto send_one = world().start_send(one, rank, 1);
  const auto send_two = world().start_send(two, rank, 2);
  world().start_receive(second, rank, 2)->wait();
  world().start_receive(first, rank, 1)->wait();
  EXPECT_EQ(first, one);
  EXPECT_EQ(second, two);
}

TEST(Communicator, AMessageOfAnotherLengthIsAnError) {
  const int rank = world().rank();
  for (const std::size_t length : {3u, 5u}) {
    const Bytes sent = pattern(rank, length);
    Bytes into(4);
    const auto send = world().start_send(sent, rank, 5);
    const auto error = failure_of([&] { world().start_receive(into, rank, 5)->wait(); });
    EXPECT_EQ(error.kind(), ErrorKind::io);
  }
}

TEST(Communicator, RefusesBadMessages) {
  const auto comm = with_small_cut();
  const Bytes fits(cut);
  const std::span<const std::byte> longer(fits.data(),
                                          MpiCommunicator::most_message_bytes + 1);  // never read
  EXPECT_EQ(failure_of([&] { comm->start_send(longer, 0, 1); }).kind(), ErrorKind::invalid_argument);
  EXPECT_EQ(failure_of([&] { comm->start_send(fits, 0, 1000); }).kind(), ErrorKind::invalid_argument);
  EXPECT_EQ(failure_of([&] { comm->start_send(fits, 0, -1); }).kind(), ErrorKind::invalid_argument);
  EXPECT_EQ(failure_of([&] { comm->start_send(fits, comm->size(), 1); }).kind(), ErrorKind::io);
}

TEST(Communicator, ABarrierIsOpenOnlyWhenTheLastRankCame) {
  const int last = world().size() - 1;
  constexpr int tag = 3;
  Bytes token(1);
  if (world().rank() != last) {
    const auto request = world().start_barrier();
    for (int poll = 0; poll < 20; ++poll) {
      EXPECT_FALSE(request->test());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    world().start_send(token, last, tag)->wait();
    request->wait();
    EXPECT_TRUE(request->test());
  } else {
    for (int rank = 0; rank < last; ++rank) world().start_receive(token, rank, tag)->wait();
    barrier(world());
  }
}

TEST(Communicator, ADroppedRequestIsCompleted) {
  std::uint64_t result = 0;
  world().start_barrier();
  world().start_agree(1, result);
  EXPECT_EQ(agree(world(), 2), 2u);
}

TEST(Communicator, SplitsByColorInTheOrderOfKeys) {
  const int rank = world().rank(), size = world().size();
  const auto part = world().split(rank % 2, -rank);
  const int peers = rank % 2 == 0 ? (size + 1) / 2 : size / 2;
  EXPECT_EQ(part->size(), peers);
  EXPECT_EQ(part->rank(), peers - 1 - rank / 2);
  EXPECT_EQ(part->ranks_on_node(), peers);
  EXPECT_EQ(agree(*part, std::uint64_t{1} << (rank % 2)), std::uint64_t{1} << (rank % 2));
}

TEST(Communicator, ADuplicateKeepsItsOwnMessages) {
  const auto copy = world().duplicate();
  EXPECT_EQ(copy->rank(), world().rank());
  const int rank = world().rank();
  const Bytes one = pattern(1, 4), two = pattern(2, 4);
  Bytes from_world(4), from_copy(4);
  const auto send_one = world().start_send(one, rank, 1);
  const auto send_two = copy->start_send(two, rank, 1);
  copy->start_receive(from_copy, rank, 1)->wait();
  world().start_receive(from_world, rank, 1)->wait();
  EXPECT_EQ(from_world, one);
  EXPECT_EQ(from_copy, two);
}

TEST(Communicator, MayOutliveMpi) {
  // Freed by static destruction, after main() has ended MPI.
  static const auto kept = mpi_communicator(MPI_COMM_WORLD);
  static const auto kept_copy = kept->duplicate();
  EXPECT_EQ(kept_copy->size(), world().size());
}

TEST(Communicator, TheCommunicatorOfTheProgramKeepsItsErrorHandler) {
  MPI_Comm theirs = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &theirs);
  MPI_Comm_set_errhandler(theirs, MPI_ERRORS_ARE_FATAL);
  const auto ours = mpi_communicator(theirs);
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(theirs, &handler);
  EXPECT_TRUE(handler == MPI_ERRORS_ARE_FATAL);
  MPI_Errhandler_free(&handler);
  MPI_Comm_free(&theirs);
  EXPECT_EQ(agree(*ours, 1), 1u);
}

}  // namespace
}  // namespace cairn
