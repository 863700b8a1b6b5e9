// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <numeric>

#include "base/text.hpp"
#include "cairn/mpi.hpp"
#include "failure_of.hpp"
#include "parallel/agree.hpp"
#include "parallel/common_end.hpp"
#include "played_devices.hpp"
#include "world.hpp"

namespace cairn {
namespace {

void expect_same_on_all_ranks(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  for (const Bytes& theirs : world().gather(bytes, 0))
    EXPECT_TRUE(std::ranges::equal(theirs, bytes)) << "another rank was told something else";
}

// --- waiting ----------------------------------------------------------------------------------------------

TEST(PollOnAllRanks, EndsWhenAllHaveEnded) {
  for (int round = 0; round < 5; ++round) {
    int left = 1 + (world().rank() + round) % 3;
    poll_on_all_ranks("waiting", world(), [&] { return --left == 0; });
    EXPECT_EQ(left, 0);
  }
}

TEST(PollOnAllRanks, EndsForThoseWhoWaitForOneThatHasFailed) {
  for (int bad = 0; bad < world().size(); ++bad) {
    const Error error = failure_of([&] {
      poll_on_all_ranks("waiting", world(), [&]() -> bool {
        if (world().rank() == bad) throw Error(ErrorKind::corrupt, "it broke");
        return false;
      });
    });
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    EXPECT_EQ(error.step(), "waiting");
    ASSERT_EQ(error.failures().size(), 1u);
    EXPECT_EQ(error.failures()[0].rank, bad);
    expect_same_on_all_ranks(error.what());
  }
}

// --- links ------------------------------------------------------------------------------------------------

/// So many pieces of different lengths, the roots taking turns; only a root's bytes are there.
std::vector<DeviceLink::Piece> pieces(PlayedDevices& played, std::size_t count) {
  std::vector<DeviceLink::Piece> out;
  for (std::size_t i = 0; i < count; ++i) {
    const int root = static_cast<int>(i) % world().size();
    const std::uint64_t bytes = 1 + i * 997 % 9000;
    std::byte* const at = played.cuda.allocate(bytes);
    if (root == world().rank()) std::memset(played.cuda.shadow_of(at), static_cast<int>(i) & 0xff, bytes);
    out.push_back({at, bytes, root});
  }
  return out;
}
bool has_arrived(const PlayedDevices& played, const DeviceLink::Piece& piece, std::size_t i) {
  const std::byte* const at = played.cuda.shadow_of(piece.data);
  return std::all_of(at, at + piece.byte_count, [&](std::byte b) { return b == static_cast<std::byte>(i); });
}

TEST(NcclLink, BroadcastsFromTheRootsToAll) {
  PlayedDevices played;
  const auto link = played.link();
  for (const std::size_t count : {0u, 1u, 5u, 300u}) {
    const auto sent = pieces(played, count);
    link->broadcast(sent);
    for (std::size_t i = 0; i < count; ++i) EXPECT_TRUE(has_arrived(played, sent[i], i)) << i;
  }
}

TEST(NcclLink, ReachesTheMemoryOfItsDeviceOnly) {
  FakeCuda cuda(2, 4096);
  FakeNccl nccl(world(), cuda);
  const auto first = std::make_shared<CudaMemory>(cuda.calls(), 0);
  const auto second = std::make_shared<CudaMemory>(cuda.calls(), 1);
  const auto link = make_nccl_link(world(), nccl.calls(), first);
  EXPECT_TRUE(link->reaches(*first));
  EXPECT_FALSE(link->reaches(*second));
}

/// Calls before it that `rank` made: the same on all, as far as they go.
void expect_failures_of_all_calls(int bad, const std::function<void(PlayedDevices&)>& body,
                                  const std::function<void(PlayedDevices&, int)>& arm, const char* text) {
  for (int n = 0; n < 6; ++n) {
    PlayedDevices played;
    if (world().rank() == bad) arm(played, n);
    const Error error = failure_of([&] { body(played); });
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_TRUE(contains(error, text)) << error.what();
    ASSERT_EQ(error.failures().size(), 1u) << error.what();
    EXPECT_EQ(error.failures()[0].rank, bad);
    expect_same_on_all_ranks(error.what());
    EXPECT_EQ(played.cuda.open_things(), 0u) << "streams of the link";
  }
}

// Start: a call on rank 0 more than elsewhere; then init, and polls; then a group and polls.
TEST(NcclLink, ACallOfNcclThatFailsOnARankIsEverybodysError) {
  for (int bad = 0; bad < world().size(); ++bad) {
    expect_failures_of_all_calls(
        bad, [](PlayedDevices& played) { played.link()->broadcast(pieces(played, 3)); },
        [](PlayedDevices& played, int n) { played.nccl.fail_call(n); }, FakeNccl::kBadText);
  }
}

TEST(NcclLink, ACallOfCudaThatFailsOnARankIsEverybodysError) {
  for (int bad = 0; bad < world().size(); ++bad) {
    expect_failures_of_all_calls(
        bad, [](PlayedDevices& played) { played.link()->broadcast(pieces(played, 3)); },
        [](PlayedDevices& played, int n) { played.cuda.fail_call(n); }, FakeCuda::kBadText);
  }
}

// --- transfers --------------------------------------------------------------------------------------------

std::byte* filled(PlayedDevices& played, std::size_t bytes, int seed) {
  std::byte* const at = played.cuda.allocate(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    played.cuda.shadow_of(at)[i] = iota_byte(i, static_cast<std::uint64_t>(seed));
  return at;
}

bool is_filled(const Bytes& bytes, int seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != iota_byte(i, static_cast<std::uint64_t>(seed))) return false;
  return true;
}

TEST(NcclLink, SendsToTheRankThatReceivesInTheOrderOfBoth) {
  PlayedDevices played(32 << 20);
  const auto link = played.link();
  constexpr std::size_t kLengths[] = {1, 70'000, 4'096, 300'000};
  std::vector<std::unique_ptr<DeviceLink::Transfer>> transfers;
  std::deque<Bytes> received;
  for (std::size_t i = 0; i < std::size(kLengths); ++i) {
    const int seed = static_cast<int>(i) * 100;
    if (world().rank() > 0)
      transfers.push_back(
          link->start_send({filled(played, kLengths[i], seed + world().rank()), kLengths[i]}, 0));
    for (int from = 1; world().rank() == 0 && from < world().size(); ++from)
      transfers.push_back(link->start_receive(received.emplace_back(kLengths[i]), from));
  }
  for (const auto& transfer : transfers) {
    while (!transfer->is_done()) {
    }
  }
  for (std::size_t i = 0; i < received.size(); ++i) {
    const auto others = static_cast<std::size_t>(world().size() - 1);
    EXPECT_TRUE(is_filled(received[i], static_cast<int>(i / others * 100 + i % others + 1))) << i;
  }
  barrier(world());
}

TEST(NcclLink, IsBrokenByATransferThatIsGivenUp) {
  PlayedDevices played;
  const auto link = played.link();
  std::byte* const at = filled(played, 100, 0);
  link->start_send({at, 100}, (world().rank() + 1) % world().size()).reset();
  EXPECT_TRUE(contains(failure_of([&] { link->start_send({at, 100}, 0); }), "has failed before"));
  EXPECT_EQ(failure_of([&] { link->broadcast({}); }).kind(), ErrorKind::io);
  EXPECT_EQ(played.cuda.open_things(), 0u);
}

TEST(NcclLink, ACallThatFailsFailsAllTransfersOfItsRank) {
  for (const bool of_nccl : {true, false}) {
    for (int n = 0; n < 4; ++n) {
      PlayedDevices played;
      const auto link = played.link();
      std::byte* const at = filled(played, 100, 0);
      Bytes into(100);
      const int next = (world().rank() + 1) % world().size();
      const auto first = link->start_receive(into, next), second = link->start_send({at, 100}, next);
      of_nccl ? played.nccl.fail_call(n) : played.cuda.fail_call(n);
      const Error error = failure_of([&] {
        for (int poll = 0; poll < 100; ++poll) first->is_done();
      });
      EXPECT_EQ(error.kind(), ErrorKind::io) << n;
      EXPECT_TRUE(contains(failure_of([&] { second->is_done(); }), "has failed before"));
      barrier(world());
    }
  }
}

// --- when it is there -------------------------------------------------------------------------------------

TEST(NcclLink, ThatHasFailedOnceFailsAgain) {
  PlayedDevices played;
  const auto link = played.link();
  const auto sent = pieces(played, 4);
  if (world().rank() == world().size() - 1) played.nccl.fail_call(2);  // ncclBroadcast
  EXPECT_TRUE(contains(failure_of([&] { link->broadcast(sent); }), "ncclBroadcast failed"));
  const Error again = failure_of([&] { link->broadcast(sent); });
  EXPECT_EQ(again.kind(), ErrorKind::io);
  EXPECT_TRUE(contains(again, "has failed before")) << again.what();
}

TEST(NcclLink, WithoutTheLibraryIsUnsupportedOrLeftOut) {
  setenv("CAIRN_NCCL", "libcairn-no-nccl.so", 1);
  PlayedDevices played;
  const Error error = failure_of([&] { nccl_link(world(), played.memory, UseNccl::on); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  EXPECT_TRUE(contains(error, "libcairn-no-nccl.so")) << error.what();
  std::string why_not;
  EXPECT_EQ(nccl_link(world(), played.memory, UseNccl::automatic, &why_not), nullptr);
  EXPECT_EQ(why_not, error.what());
  EXPECT_EQ(nccl_link(world(), played.memory, UseNccl::off), nullptr);
  unsetenv("CAIRN_NCCL");
}

TEST(NcclLink, IsForMemoryOfCuda) {
  const Error error = failure_of([] { nccl_link(world(), nullptr, UseNccl::on); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
}

TEST(NcclLink, IsWantedByAllOrNone) {
  if (world().size() == 1) return;
  const auto use = world().rank() == 0 ? UseNccl::off : UseNccl::automatic;
  EXPECT_EQ(failure_of([&] { nccl_link(world(), nullptr, use); }).kind(), ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace cairn
