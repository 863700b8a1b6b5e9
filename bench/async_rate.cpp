// SPDX-License-Identifier: BSD-3-Clause
// A job that saves the same state in the background again and again, beside memcpy of the same memory by the
// same ranks.
//   mpirun -n N async_rate DIRECTORY MEBIBYTES TENSORS ROUNDS [multiple]
// Prints one JSON line a round; the first round is discarded. Seconds are those of the slowest rank.
//   memcpy        of each rank's tensors into memory that is there
//   blocked       AsyncSaver::save
//   whole         from the call to the end of the save, steps being made meanwhile
//   step, slowed  a step of computing alone, and while a save is under way: means of rank 0
//   extra_mib     what the first save added to VmHWM, beyond the state: of the rank with the most
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cairn/async_save.hpp"
#include "cairn/mpi.hpp"
#include "float_state.hpp"
#include "timed.hpp"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double status_mib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field + ":")) return std::strtod(line.c_str() + field.size() + 1, nullptr) / 1024;
  return 0;
}

/// Work that reads and writes little memory, some tens of milliseconds.
double computed(double value) {
  for (int i = 0; i < 10'000'000; ++i) value = value * 0.999999 + 0.5;
  return value;
}

class Job {
 public:
  Job(Communicator& comm, std::string directory, std::uint64_t mebibytes, std::uint64_t tensors)
      : comm_(comm),
        directory_(std::move(directory)),
        state_(comm, mebibytes, tensors),
        saver_(comm, posix_file_system()) {
    copies_ = state_.memory;
    options_.sync = false;
    options_.threads = 1;
  }

  void round(int number) {
    const double copied = timed(comm_, [&] {
      for (std::size_t i = 0; i < copies_.size(); ++i)
        std::memcpy(copies_[i].data(), state_.memory[i].data(), copies_[i].size() * sizeof(float));
    });
    const double step = mean_step([&](int steps) { return steps == 20; });
    const std::string directory = directory_ + "/cairn." + std::to_string(number);
    const double before = status_mib("VmRSS");
    const auto start = Clock::now();
    std::optional<AsyncSave> pending;
    const double blocked = timed(comm_, [&] { pending = saver_.save(state_.live, directory, options_); });
    const double slowed = mean_step([&](int) { return pending->poll(); });
    pending->wait();
    barrier(comm_);
    const double whole = seconds_since(start);
    if (number == 0) extra_mib_ = largest(status_mib("VmHWM") - before);
    if (comm_.rank() == 0 && number > 0)
      std::printf(
          "{\"memcpy\": %.4f, \"blocked\": %.4f, \"whole\": %.4f, \"step\": %.4f, \"slowed\": %.4f, "
          "\"extra_mib\": %.1f}\n",
          copied, blocked, whole, step, slowed, extra_mib_);
    if (comm_.rank() == 0) std::filesystem::remove_all(directory);
  }

 private:
  template <class Done>
  double mean_step(const Done& done) {
    const auto start = Clock::now();
    int steps = 0;
    do {
      sink_ = computed(sink_);
      ++steps;
    } while (!done(steps));
    return seconds_since(start) / steps;
  }

  double largest(double value) {
    Bytes mine(sizeof value);
    std::memcpy(mine.data(), &value, sizeof value);
    for (const Bytes& other : comm_.gather(mine, 0)) {
      double one = 0;
      std::memcpy(&one, other.data(), sizeof one);
      value = std::max(value, one);
    }
    return value;
  }

  Communicator& comm_;
  std::string directory_;
  FloatState state_;
  std::vector<std::vector<float>> copies_;
  AsyncSaver saver_;
  SaveOptions options_;
  volatile double sink_ = 1;
  double extra_mib_ = 0;
};

int run(int argc, char** argv) {
  MpiSession session(argc, argv);
  const auto comm = session.world();
  Job job(*comm, argv[1], std::strtoull(argv[2], nullptr, 10), std::strtoull(argv[3], nullptr, 10));
  for (int round = 0; round <= std::atoi(argv[4]); ++round) job.round(round);
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  if (argc == 5) return cairn::run(argc, argv);
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  const int status = cairn::run(argc, argv);
  MPI_Finalize();
  return status;
}
