// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/agree.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/byte_writer.hpp"
#include "failure_of.hpp"
#include "world.hpp"

namespace cairn {
namespace {

/// What this rank was told, as one text; the ranks' texts are compared on rank 0.
std::string told(const Error& error) {
  auto text =
      fmt::format("{}|{}|{}|{}", to_string(error.kind()), error.message(), error.hint(), error.step());
  for (const auto& failure : error.failures()) text += fmt::format("|{}: {}", failure.rank, failure.message);
  return text;
}

void expect_same_on_all_ranks(const std::string& text) {
  for (const Bytes& theirs : world().gather(as_bytes(text), 0)) EXPECT_EQ(as_text(theirs), text);
}

[[noreturn]] void fail_on(int rank) {
  throw Error(rank % 2 == 0 ? ErrorKind::corrupt : ErrorKind::not_found, fmt::format("file {} is bad", rank),
              fmt::format("mend {}", rank));
}

std::string named(int rank) {
  return fmt::format("file {} is bad", rank) +
         (world().size() > 1 ? fmt::format(" (rank {} of {})", rank, world().size()) : "");
}

TEST(OnAllRanks, EveryRankRunsAndReturns) {
  bool ran = false;
  on_all_ranks("a step", world(), [&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(OnAllRanks, TheFailureOfAnyOneRankIsThrownByAll) {
  for (int bad = 0; bad < world().size(); ++bad) {
    const auto error = failure_of([&] {
      on_all_ranks("opening", world(), [&] {
        if (world().rank() == bad) fail_on(bad);
      });
    });
    EXPECT_EQ(error.kind(), bad % 2 == 0 ? ErrorKind::corrupt : ErrorKind::not_found);
    EXPECT_EQ(error.message(), named(bad));
    EXPECT_EQ(error.hint(), fmt::format("mend {}", bad));
    EXPECT_EQ(error.step(), "opening");
    ASSERT_EQ(error.failures().size(), 1u);
    EXPECT_EQ(error.failures()[0].rank, bad);
    expect_same_on_all_ranks(told(error));
  }
}

TEST(OnAllRanks, WhenAllFailTheLowestRankSpeaksAndAllAreListed) {
  const auto error = failure_of([&] { on_all_ranks("opening", world(), [] { fail_on(world().rank()); }); });
  EXPECT_EQ(error.message(), named(0));
  ASSERT_EQ(error.failures().size(), static_cast<std::size_t>(world().size()));
  for (int rank = 0; rank < world().size(); ++rank) {
    EXPECT_EQ(error.failures()[static_cast<std::size_t>(rank)].rank, rank);
    EXPECT_EQ(error.failures()[static_cast<std::size_t>(rank)].message, fmt::format("file {} is bad", rank));
  }
  expect_same_on_all_ranks(told(error));
}

TEST(OnAllRanks, TheRanksGoOnTogetherAfterAFailure) {
  for (int round = 0; round < 20; ++round) {
    failure_of([&] {
      on_all_ranks("a step", world(), [&] {
        if (world().rank() == round % world().size()) throw std::runtime_error(std::string(5000, 'x'));
      });
    });
    on_all_ranks("the next step", world(), [] {});
  }
}

TEST(OnRoot, TheResultReachesAllRanks) {
  for (int root = 0; root < world().size(); ++root) {
    int runs = 0;
    const Bytes bytes = on_root("reading", world(), root, [&] {
      ++runs;
      return Bytes(1000, static_cast<std::byte>(root));
    });
    EXPECT_EQ(bytes, Bytes(1000, static_cast<std::byte>(root)));
    EXPECT_EQ(runs, world().rank() == root ? 1 : 0);
  }
}

TEST(OnRoot, TheFailureReachesAllRanks) {
  for (int root = 0; root < world().size(); ++root) {
    const auto error =
        failure_of([&] { on_root("reading", world(), root, [&]() -> Bytes { fail_on(root); }); });
    EXPECT_EQ(error.message(), named(root));
    expect_same_on_all_ranks(told(error));
  }
}

}  // namespace
}  // namespace cairn
