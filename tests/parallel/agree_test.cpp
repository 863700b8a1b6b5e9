// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/agree.hpp"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "failure_of.hpp"

namespace cairn {
namespace {

TEST(OnAllRanks, ASuccessPasses) {
  const auto comm = solo_communicator();
  bool ran = false;
  on_all_ranks("a step", *comm, [&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(OnAllRanks, AnErrorKeepsItsPartsAndGainsTheStep) {
  const auto comm = solo_communicator();
  const auto error = failure_of([&] {
    on_all_ranks("reading the metadata", *comm,
                 [] { throw Error(ErrorKind::corrupt, "bad bytes", "try again"); });
  });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_EQ(error.message(), "bad bytes");
  EXPECT_EQ(error.hint(), "try again");
  EXPECT_EQ(error.step(), "reading the metadata");
  ASSERT_EQ(error.failures().size(), 1u);
  EXPECT_EQ(error.failures()[0].rank, 0);
  EXPECT_EQ(error.failures()[0].message, "bad bytes");
}

TEST(OnAllRanks, ForeignExceptionsBecomeErrors) {
  const auto comm = solo_communicator();
  const auto message_of = [&](const std::function<void()>& body) {
    const auto error = failure_of([&] { on_all_ranks("a step", *comm, body); });
    EXPECT_EQ(error.kind(), ErrorKind::io);
    return error.message();
  };
  EXPECT_EQ(message_of([] { throw std::bad_alloc(); }), "out of memory");
  EXPECT_EQ(message_of([] { throw std::runtime_error("odd"); }), "odd");
  EXPECT_NE(message_of([] { throw 7; }), "");
}

TEST(OnRoot, HandsOutTheResultOrTheFailure) {
  const auto comm = solo_communicator();
  const Bytes bytes = on_root("a step", *comm, 0, [] { return Bytes(3, std::byte{7}); });
  EXPECT_EQ(bytes, Bytes(3, std::byte{7}));
  const auto failing = [&] { on_root("a step", *comm, 0, []() -> Bytes { fail_corrupt("no"); }); };
  EXPECT_EQ(failure_of(failing).kind(), ErrorKind::corrupt);
}

}  // namespace
}  // namespace cairn
