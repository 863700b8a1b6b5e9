// SPDX-License-Identifier: BSD-3-Clause
// Work of ranks that are threads, in their backgrounds: what stands, what is undone, and that all learn the
// same.
#include "parallel/background.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <string>

#include "base/byte_writer.hpp"
#include "thread_ranks.hpp"

namespace cairn {
namespace {

enum class Fails { nobody, worker, conclusion, after_it, summary };

struct Ends {
  std::atomic<int> kept{0}, undone{0}, left{0};
};

class Task final : public BackgroundWork {
 public:
  Task(int rank, int size, Fails fails, Ends& ends) : rank_(rank), size_(size), fails_(fails), ends_(ends) {}

  Bytes work() override {
    if (fails_ == Fails::worker && rank_ == size_ - 1) throw Error(ErrorKind::corrupt, "no work");
    return Bytes(3, static_cast<std::byte>(rank_));
  }
  std::string_view step() const override { return "working"; }
  std::optional<Error> conclude(const std::vector<Bytes>& results) override {
    EXPECT_EQ(results.size(), static_cast<std::size_t>(size_));
    for (int rank = 0; rank < size_; ++rank)
      EXPECT_EQ(results[static_cast<std::size_t>(rank)], Bytes(3, static_cast<std::byte>(rank)));
    if (fails_ == Fails::conclusion) throw Error(ErrorKind::io, "no conclusion");
    if (fails_ == Fails::after_it) return Error(ErrorKind::io, "not durable");
    return std::nullopt;
  }
  Bytes summary() override {
    if (fails_ == Fails::summary) throw std::bad_alloc();
    return Bytes(2, std::byte{7});
  }
  std::string_view concluding() const override { return "concluding"; }
  void keep(std::span<const std::byte> summary) override {
    EXPECT_EQ(summary.size(), fails_ == Fails::summary ? 0u : 2u);
    ++ends_.kept;
  }
  void undo() noexcept override { ++ends_.undone; }
  void leave() noexcept override { ++ends_.left; }

 private:
  const int rank_, size_;
  const Fails fails_;
  Ends& ends_;
};

struct Expected {
  Fails fails;
  bool stands;
  const char *message, *step;
};
const Expected kExpected[] = {
    {Fails::nobody, true, "", ""},
    {Fails::worker, false, "no work", "working"},
    {Fails::conclusion, false, "no conclusion", "concluding"},
    {Fails::after_it, true, "not durable", "concluding"},
    {Fails::summary, true, "out of memory", "concluding"},
};

void run_works(Communicator& comm, Ends* ends) {
  Background background(comm);
  for (const auto& [fails, stands, message, step] : kExpected) {
    const auto run = background.start(std::make_unique<Task>(comm.rank(), comm.size(), fails, *ends++));
    run->wait();
    EXPECT_EQ(run->error().has_value(), *message != '\0') << message;
    if (!run->error()) continue;
    EXPECT_NE(std::string_view(run->error()->what()).find(message), std::string_view::npos)
        << run->error()->what();
    EXPECT_EQ(run->error()->step(), step);
  }
}

TEST(Background, WhatIsConcludedStandsWhateverFailsAfterwards) {
  for (const bool any_thread : {true, false}) {
    for (const int ranks : {1, 2, 4}) {
      Ends ends[std::size(kExpected)];
      run_ranks(ranks, any_thread, [&](Communicator& comm) { run_works(comm, ends); });
      for (std::size_t i = 0; i < std::size(kExpected); ++i) {
        EXPECT_EQ(ends[i].kept, kExpected[i].stands ? ranks : 0) << i;
        EXPECT_EQ(ends[i].undone, kExpected[i].stands ? 0 : ranks) << i;
        EXPECT_EQ(ends[i].left, 0);
      }
    }
  }
}

}  // namespace
}  // namespace cairn
