// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "cairn/mpi.hpp"
#include "world.hpp"

namespace cairn {

namespace {

Communicator* the_world = nullptr;

/// What the ranks above 0 say: only their failures.
class FailurePrinter final : public testing::EmptyTestEventListener {
  // Remembered, as gtest holds its lock while it reports a failure.
  void OnTestStart(const testing::TestInfo& test) override {
    test_ = std::string(test.test_suite_name()) + "." + test.name();
  }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::cerr << "rank " << the_world->rank() << ": " << test_ << ": "
              << (result.file_name() ? result.file_name() : "") << ':' << result.line_number() << ": "
              << result.message() << std::endl;
  }

  std::string test_;
};

void quieten_higher_ranks() {
  if (the_world->rank() == 0) return;
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new FailurePrinter);
}

}  // namespace

Communicator& world() { return *the_world; }

}  // namespace cairn

int main(int argc, char** argv) {
  cairn::MpiSession session(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  const auto comm = session.world();
  cairn::the_world = comm.get();
  cairn::quieten_higher_ranks();
  const int result = RUN_ALL_TESTS();
  return cairn::agree(*comm, result != 0 ? 1 : 0) == 0 ? 0 : 1;
}
