// SPDX-License-Identifier: BSD-3-Clause
// Saves in the background by several ranks that are threads of this process: what the thread sanitizer has to
// see at once. mpi_tests/async_save_test.cpp has the same and more with MPI.
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "async_fixture.hpp"
#include "base/byte_writer.hpp"
#include "cairn/async_save.hpp"
#include "cairn/load.hpp"
#include "cairn/training.hpp"
#include "parallel/agree.hpp"
#include "storage/fault.hpp"
#include "temp_dir.hpp"
#include "thread_ranks.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// A rank's rows of a tensor that is larger than the smallest staging memory, and what all have alike.
struct State {
  static constexpr std::size_t kRow = 768 << 10;  // of 4 bytes

  State(const Communicator& comm, std::uint32_t seed) : live(comm.rank()), rows(kRow), whole(1000) {
    const auto ranks = static_cast<std::int64_t>(comm.size());
    add("rows", TensorLayout::sharded({ranks, kRow}, 0, comm.size()), {1, kRow}, rows);
    add("whole", TensorLayout::replicated({1000}, comm.size()), {1000}, whole);
    live.add_object("step", static_cast<std::int64_t>(seed));
    live.add_rank_object("loader", comm.rank());
    for (std::size_t i = 0; i < kRow; ++i) rows[i] = value(i, seed);
    for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = value(i, seed + 1);
    rank = static_cast<std::uint32_t>(comm.rank());
  }
  void overwrite() {
    std::ranges::fill(rows, 0xeeeeeeee);
    std::ranges::fill(whole, 0xeeeeeeee);
  }
  bool is_of(std::uint32_t seed) const {
    for (std::size_t i = 0; i < kRow; ++i)
      if (rows[i] != value(i, seed)) return false;
    return whole[7] == value(7, seed + 1);
  }

  LiveState live;
  std::vector<std::uint32_t> rows, whole;
  std::uint32_t rank = 0;

 private:
  static std::uint32_t value(std::size_t i, std::uint32_t seed) {
    return static_cast<std::uint32_t>(i) * 2654435761u + seed * 97;
  }
  void add(const char* name, const TensorLayout& layout, const std::vector<std::int64_t>& sizes,
           std::vector<std::uint32_t>& values) {
    live.add_tensor(name, layout,
                    TensorView::contiguous(DType::int32, sizes, reinterpret_cast<std::byte*>(values.data())));
  }
};

/// By number of ranks and whether messages move in any thread.
class AsyncRanks : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  void run(const std::function<void(Communicator&)>& body) {
    const auto [ranks, any_thread] = GetParam();
    run_ranks(ranks, any_thread, body);
  }
  TempDir dir_;
};
INSTANTIATE_TEST_SUITE_P(Threads, AsyncRanks, testing::Combine(testing::Values(2, 3, 4), testing::Bool()),
                         [](const auto& of) {
                           return std::to_string(std::get<0>(of.param)) +
                                  (std::get<1>(of.param) ? "ByTheThread" : "ByPolls");
                         });

SaveOptions two_threads() {
  SaveOptions options;
  options.sync = false;
  options.threads = 2;
  return options;
}

void expect_loaded(Communicator& comm, const std::string& directory, std::uint32_t seed) {
  State state(comm, 0);
  LoadOptions options;
  options.threads = 2;
  load(comm, posix_file_system(), directory, state.live, options);
  EXPECT_TRUE(state.is_of(seed)) << directory << ", rank " << comm.rank();
}

// Steps of a job between the polls: it writes to the tensors, and talks to the other ranks.
void go_on(Communicator& comm, State& state, AsyncSave& pending) {
  bool all = false;
  while (!all) {
    state.overwrite();
    all = agree(comm, pending.poll() ? 0 : 1) == 0;
  }
}

TEST_P(AsyncRanks, SaveWhatTheTensorsWere) {
  run([&](Communicator& comm) {
    for (const std::uint64_t cap : {0 * kMiB, 64 * kMiB}) {
      AsyncSaver saver(comm, posix_file_system(), {.staging_bytes = cap});
      for (const std::uint32_t turn : {1u, 2u}) {
        const std::string directory = dir_ / (std::to_string(cap) + "." + std::to_string(turn));
        State state(comm, turn);
        AsyncSave pending = saver.save(state.live, directory, two_threads());
        go_on(comm, state, pending);
        EXPECT_EQ(pending.staging().over_cap, cap == 0);
        EXPECT_EQ(pending.wait().tensors, 2u);
        expect_loaded(comm, directory, turn);
      }
    }
  });
}

// The handle is dropped, the next call and the destructor wait.
TEST_P(AsyncRanks, FinishWhatNobodyWaitsFor) {
  run([&](Communicator& comm) {
    {
      AsyncSaver saver(comm, posix_file_system(), {.staging_bytes = 2 * kMiB});
      for (const std::uint32_t turn : {1u, 2u}) {
        State state(comm, turn);
        saver.save(state.live, dir_ / std::to_string(turn), two_threads());
      }
    }
    for (const std::uint32_t turn : {1u, 2u}) expect_loaded(comm, dir_ / std::to_string(turn), turn);
  });
}

TEST_P(AsyncRanks, LearnOfAFailureOnAny) {
  run([&](Communicator& comm) {
    FaultyFileSystem files(posix_file_system());
    for (const std::uint64_t cap : {0 * kMiB, 64 * kMiB}) {
      AsyncSaver saver(comm, files, {.staging_bytes = cap});
      for (int bad = 0; bad < comm.size(); ++bad) {
        if (comm.rank() == bad)
          files.inject({.operation = Operation::write,
                        .path_contains = ".distcp",
                        .first_call = 3,
                        .error_number = EIO});
        State state(comm, 1);
        AsyncSave pending = saver.save(state.live, dir_ / "c", two_threads());
        go_on(comm, state, pending);
        files.heal();
        const Error* const error = pending.error();
        EXPECT_NE(error, nullptr);
        const std::string said = error == nullptr ? "" : error->what();
        for (const Bytes& other : comm.gather(as_bytes(said), 0)) EXPECT_EQ(as_text(other), said);
        if (error != nullptr) {
          EXPECT_EQ(error->step(), "writing the shards");
          EXPECT_EQ(error->failures().at(0).rank, bad);
        }
        EXPECT_TRUE(comm.rank() > 0 || contents_of(dir_ / "c").empty());
        barrier(comm);
      }
      State state(comm, 9);
      saver.save(state.live, dir_ / std::to_string(cap), two_threads()).wait();
      expect_loaded(comm, dir_ / std::to_string(cap), 9);
    }
  });
}

TEST_P(AsyncRanks, KeepIterations) {
  run([&](Communicator& comm) {
    TrainingOptions options;
    options.save = two_threads();
    options.retention.keep_last = 1;
    options.async.staging_bytes = 2 * kMiB;
    TrainingCheckpoints checkpoints(comm, posix_file_system(), dir_.path(), options);
    for (const std::uint32_t iteration : {10u, 20u, 30u}) {
      State model(comm, iteration), optim(comm, iteration + 1);
      checkpoints.start_save(iteration, {{"model", model.live}, {"optim", optim.live}});
    }
    State model(comm, 0), optim(comm, 0);
    EXPECT_EQ(checkpoints.resume({{"model", model.live}, {"optim", optim.live}}).iteration, 30);
    EXPECT_TRUE(model.is_of(30) && optim.is_of(31));
  });
}

}  // namespace
}  // namespace cairn
