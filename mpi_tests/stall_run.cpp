// SPDX-License-Identifier: BSD-3-Clause
// A consolidation (MODE shared or gather), load or save in which one rank gets stuck or is slow: stall_run
// SOURCE DESTINATION LIMIT_S WHAT RANK MODE. Ends as `cairn consolidate --stall-timeout` does. Started by
// stall_test.py.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "cairn/checkpoint.hpp"
#include "cairn/load.hpp"
#include "cairn/mpi.hpp"
#include "cairn/save.hpp"
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
  if (what == "hold-sync") faulty.inject(delay_of(Operation::sync, 0, kForever));
  if (what == "slow") faulty.inject(delay_of(Operation::read, 0, ranks * kSlow));
}

using Say = std::function<void(const Error&)>;

/// Rows of the tensor `w` that stall_test.py makes.
struct Rows {
  explicit Rows(const Communicator& comm)
      : layout(TensorLayout::sharded({kElements}, 0, comm.size())),
        values(static_cast<std::size_t>(layout.local_shape(comm.rank())[0])),
        state(comm.rank()) {
    state.add_tensor("w", layout,
                     TensorView::contiguous(DType::float32, layout.local_shape(comm.rank()),
                                            reinterpret_cast<std::byte*>(values.data())));
  }
  static constexpr std::int64_t kElements = 8 << 20;
  TensorLayout layout;
  std::vector<float> values;
  LiveState state;
};

template <class Options>
Options watched(double limit_s, const Say& say) {
  Options options;
  options.stall_timeout_s = limit_s;
  options.stalled = say;
  options.threads = 1;
  return options;
}

int run(Communicator& comm, char** arguments) {
  FaultyFileSystem faulty(posix_file_system());
  StoppingFileSystem stopping(faulty);
  if (std::atoi(arguments[5]) == comm.rank()) arrange(arguments[4], comm.size(), faulty, stopping);
  const auto say = [](const Error& error) { fmt::print(stderr, "stalled: {}\n", error.what()); };
  const std::string source = arguments[1], destination = arguments[2], mode = arguments[6];
  const double limit_s = std::atof(arguments[3]);
  if (mode == "load" || mode == "save") {
    Rows rows(comm);
    if (mode == "load")
      load(comm, stopping, source, rows.state, watched<LoadOptions>(limit_s, say));
    else
      save(comm, stopping, rows.state, destination, watched<SaveOptions>(limit_s, say));
  } else {
    auto options = watched<ConsolidateOptions>(limit_s, say);
    options.source = source;
    options.destination = destination;
    options.write = mode == "gather" ? WriteMode::gather : WriteMode::shared;
    options.sync = false;
    consolidate(comm, stopping, options);
  }
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
