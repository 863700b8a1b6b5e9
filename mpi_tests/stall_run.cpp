// SPDX-License-Identifier: BSD-3-Clause
// A consolidation in which one rank gets stuck or is slow: stall_run SOURCE DESTINATION LIMIT_S WHAT RANK
// MODE. Ends as `cairn consolidate --stall-timeout` does. Started by stall_test.py.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "cairn/checkpoint.hpp"
#include "cairn/mpi.hpp"
#include "storage/fault.hpp"
#include "storage/forwarding.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kReadsBefore = 6;
constexpr std::chrono::milliseconds kSlow(150);  // times the ranks: a share takes five seconds
constexpr std::chrono::hours kForever(1);

/// Stops the process when it opens a shard.
class StoppingFileSystem final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  std::unique_ptr<File> open_read(const std::string& path) override {
    if (stops_ && path.ends_with(".distcp")) kill(getpid(), SIGSTOP);
    return inner_.open_read(path);
  }
  bool stops_ = false;
};

InjectedFault delay_of(Operation operation, std::uint64_t first, std::chrono::milliseconds delay) {
  InjectedFault fault{};
  fault.operation = operation;
  fault.path_contains = operation == Operation::read ? ".distcp" : "";
  fault.first_call = first;
  fault.delay = delay;
  return fault;
}

void arrange(const std::string& what, int ranks, FaultyFileSystem& faulty, StoppingFileSystem& stopping) {
  if (what == "stop") stopping.stops_ = true;
  if (what == "hold") faulty.inject(delay_of(Operation::read, kReadsBefore, kForever));
  if (what == "hold-metadata") {
    auto fault = delay_of(Operation::read, 0, kForever);
    fault.path_contains = ".metadata";
    faulty.inject(fault);
  }
  if (what == "hold-rename") faulty.inject(delay_of(Operation::rename, 0, kForever));
  if (what == "slow") faulty.inject(delay_of(Operation::read, 0, ranks * kSlow));
}

int run(Communicator& comm, char** arguments) {
  FaultyFileSystem faulty(posix_file_system());
  StoppingFileSystem stopping(faulty);
  if (std::atoi(arguments[5]) == comm.rank()) arrange(arguments[4], comm.size(), faulty, stopping);
  ConsolidateOptions options;
  options.source = arguments[1];
  options.destination = arguments[2];
  options.stall_timeout_s = std::atof(arguments[3]);
  options.write = std::string(arguments[6]) == "gather" ? WriteMode::gather : WriteMode::shared;
  options.sync = false;
  options.threads = 1;
  options.stalled = [](const Error& error) { fmt::print(stderr, "stalled: {}\n", error.what()); };
  consolidate(comm, stopping, options);
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return cairn::run(*cairn::solo_communicator(), argv);
  cairn::MpiSession session(argc, argv);
  return cairn::run(*session.world(), argv);
}
