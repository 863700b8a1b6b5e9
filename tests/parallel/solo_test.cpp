// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "base/byte_writer.hpp"
#include "cairn/communicator.hpp"
#include "failure_of.hpp"
#include "parallel/polling.hpp"

namespace cairn {
namespace {

TEST(SoloCommunicator, IsAWorldOfOne) {
  const auto comm = solo_communicator();
  EXPECT_EQ(comm->rank(), 0);
  EXPECT_EQ(comm->size(), 1);
  EXPECT_EQ(comm->ranks_on_node(), 1);
  EXPECT_EQ(comm->split(3, 1)->size(), 1);
  EXPECT_EQ(comm->duplicate()->size(), 1);
  barrier(*comm);
  EXPECT_EQ(agree(*comm, 0b101), 0b101u);
}

TEST(SoloCommunicator, CollectivesReturnWhatWentIn) {
  const auto comm = solo_communicator();
  Bytes bytes(5, std::byte{9});
  comm->broadcast(bytes, 0);
  EXPECT_EQ(bytes, Bytes(5, std::byte{9}));
  EXPECT_EQ(comm->gather(bytes, 0), std::vector<Bytes>{bytes});
  EXPECT_EQ(failure_of([&] { comm->broadcast(bytes, 1); }).kind(), ErrorKind::invalid_argument);
}

TEST(SoloCommunicator, MessagesToItselfMatchByTagInOrder) {
  const auto comm = solo_communicator();
  std::string early(1, '?'), first(1, '?'), second(1, '?');
  const auto waiting = comm->start_receive(std::as_writable_bytes(std::span(early)), 0, 7);
  EXPECT_FALSE(waiting->test());
  comm->start_send(as_bytes("a"), 0, 1);
  comm->start_send(as_bytes("b"), 0, 1);
  comm->start_send(as_bytes("c"), 0, 7);
  comm->start_receive(std::as_writable_bytes(std::span(first)), 0, 1)->wait();
  comm->start_receive(std::as_writable_bytes(std::span(second)), 0, 1)->wait();
  wait_by_polling(*waiting, for_events);
  EXPECT_EQ(first + second + early, "abc");
}

TEST(SoloCommunicator, AMessageOfAnotherLengthOrNoneIsAnError) {
  const auto comm = solo_communicator();
  std::string into(2, '?');
  comm->start_send(as_bytes("abc"), 0, 1);
  const auto receive = [&] { comm->start_receive(std::as_writable_bytes(std::span(into)), 0, 1)->wait(); };
  EXPECT_TRUE(contains(failure_of(receive), "2 bytes was expected, 3 came"));
  EXPECT_EQ(failure_of(receive).kind(), ErrorKind::invalid_argument);
  EXPECT_EQ(failure_of([&] { comm->start_send(as_bytes("a"), 1, 1); }).kind(), ErrorKind::invalid_argument);
}

TEST(WaitByPolling, TestsUntilDone) {
  struct DoneAtLast final : Request {
    bool test() override { return ++tests == 40; }
    void wait() override {}
    int tests = 0;
  } request;
  wait_by_polling(request, {std::chrono::microseconds(0), std::chrono::microseconds(50)});
  EXPECT_EQ(request.tests, 40);
}

}  // namespace
}  // namespace cairn
