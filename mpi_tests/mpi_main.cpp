// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

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

/// As a program would that initialises MPI itself, at the level that CAIRN_TEST_THREADS names; false: it
/// names none.
bool initialise_at_level(int& argc, char**& argv) {
  const char* const text = std::getenv("CAIRN_TEST_THREADS");
  if (text == nullptr) return false;
  const int level = std::string_view(text) == "multiple" ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
  int provided = level;
  MPI_Init_thread(&argc, &argv, level, &provided);
  if (provided >= level) return true;
  std::cerr << "MPI gives thread level " << provided << ", not " << level << std::endl;
  std::exit(1);
}

int run_all_tests(int argc, char** argv) {
  MpiSession session(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  const auto comm = session.world();
  the_world = comm.get();
  quieten_higher_ranks();
  const int result = RUN_ALL_TESTS();
  return agree(*comm, result != 0 ? 1 : 0) == 0 ? 0 : 1;
}

}  // namespace

Communicator& world() { return *the_world; }

int main_of_tests(int argc, char** argv) {
  const bool is_ours = initialise_at_level(argc, argv);
  const int status = run_all_tests(argc, argv);
  if (is_ours) MPI_Finalize();
  return status;
}

}  // namespace cairn

int main(int argc, char** argv) { return cairn::main_of_tests(argc, argv); }
