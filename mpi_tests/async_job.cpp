// SPDX-License-Identifier: BSD-3-Clause
// async_job DIRECTORY: a job that goes on from its latest iteration, and saves one after the other in the
// background until it is killed, by tests/cli/kill_async.py. Prints `from N`, when the state that it resumed
// is that of iteration N, then `saved N` for each.
//   async_job DIRECTORY once: one iteration more, then the end
#include <cstdio>
#include <optional>

#include "base/fail.hpp"
#include "cairn/mpi.hpp"
#include "cairn/training.hpp"
#include "iota_state.hpp"

namespace cairn {
namespace {

IotaState state_of(const Communicator& comm, std::int64_t iteration, bool filled) {
  const auto seed = static_cast<std::uint64_t>(iteration);
  IotaState state(comm.rank());
  state.add("w", DType::float32, TensorLayout::sharded({1'201, 700}, 0, comm.size()), seed, filled);
  state.add("b", DType::bfloat16, TensorLayout::replicated({700}, comm.size()), seed + 1, filled);
  return state;
}

std::int64_t resumed(Communicator& comm, TrainingCheckpoints& checkpoints) {
  IotaState model = state_of(comm, 0, false), optim = state_of(comm, 0, false);
  const auto report = checkpoints.resume({{"model", model.live}, {"optim", optim.live}});
  const std::int64_t iteration = report.iteration.value_or(0);
  const auto seed = static_cast<std::uint64_t>(iteration);
  const std::uint64_t wrong = model.wrong_bytes(0, seed) + model.wrong_bytes(1, seed + 1) +
                              optim.wrong_bytes(0, seed + 5) + optim.wrong_bytes(1, seed + 6);
  if (report.iteration && wrong > 0) fail(ErrorKind::mismatch, "iteration {}: wrong bytes", iteration);
  return iteration;
}

void say(const Communicator& comm, const char* what, std::int64_t iteration) {
  if (comm.rank() != 0) return;
  std::printf("%s %lld\n", what, static_cast<long long>(iteration));
  std::fflush(stdout);
}

void run(Communicator& comm, const std::string& directory, bool once) {
  TrainingOptions options;
  options.retention.keep_last = 2;
  options.async.staging_bytes = 2 << 20;  // on few ranks less than they have
  TrainingCheckpoints checkpoints(comm, posix_file_system(), directory, options);
  std::int64_t iteration = resumed(comm, checkpoints);
  say(comm, "from", iteration);
  do {
    ++iteration;
    std::optional<AsyncIteration> pending;
    {
      const IotaState model = state_of(comm, iteration, true), optim = state_of(comm, iteration + 5, true);
      pending = checkpoints.start_save(iteration, {{"model", model.live}, {"optim", optim.live}});
    }
    pending->wait();
    say(comm, "saved", iteration);
  } while (!once);
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  cairn::MpiSession session(argc, argv);
  if (argc < 2) return 2;
  const auto world = session.world();
  try {
    cairn::run(*world, argv[1], argc > 2);
    return 0;
  } catch (const cairn::Error& error) {
    std::fprintf(stderr, "rank %d: %s\n", world->rank(), error.what());
    return 1;
  }
}
