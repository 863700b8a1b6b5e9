// SPDX-License-Identifier: BSD-3-Clause
// elastic_training: a small transformer, trained on any number of ranks, saved while it goes on, and resumed
// on any other number. docs/training.md.
#include <ATen/Parallel.h>

#include <boost/program_options.hpp>
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>

#include "cairn/mpi.hpp"
#include "cairn/preemption.hpp"
#include "job.hpp"

namespace elastic {
namespace {

namespace po = boost::program_options;

po::options_description described(Options& options) {
  po::options_description all("elastic_training DIRECTORY [OPTION…]");
  const auto value = [](auto& to) { return po::value(&to)->default_value(to); };
  all.add_options()("help,h", "this text")("directory", po::value(&options.directory)->required(),
                                           "where the iterations lie");
  all.add_options()("steps", value(options.steps), "steps in all, those before a resume included")(
      "save-every", value(options.save_every), "steps between two saves")(
      "keep", value(options.keep_last), "newest iterations that stay; 0: all")(
      "keep-every", value(options.keep_every), "iterations that stay: multiples of it")(
      "start-from", value(options.start_from), "an iteration, a tree or a torch file where the job has none")(
      "weights-only", po::bool_switch(&options.weights_only), "take the model alone from there")(
      "blocking", po::bool_switch(&options.blocking), "wait for each save")(
      "no-sync", "saves are not durable")("leave-at-once", "do not save once more when told to leave")(
      "staging-mib", value(options.staging_mib), "memory for copies of the state, of one rank")(
      "micro-batches", value(options.micro_batches), "of a step, over all ranks")(
      "micro-size", value(options.micro_size), "samples of a micro-batch")(
      "layers", value(options.model.layers), "of the model")(
      "width", value(options.model.width), "of a layer")("heads", value(options.model.heads), "of a layer")(
      "context", value(options.model.context), "characters")("rate", value(options.adam.learning_rate),
                                                             "of learning")("seed", value(options.seed),
                                                                            "of the parameters");
  return all;
}

constexpr std::uint64_t kMostStagingMib = 1 << 20;  // more is a negative number

// false: told what to say, and that is all.
bool parse(int argc, char** argv, Options& options) {
  const auto all = described(options);
  po::positional_options_description places;
  places.add("directory", 1);
  po::variables_map given;
  po::store(po::command_line_parser(argc, argv).options(all).positional(places).run(), given);
  if (given.contains("help")) {
    std::cout << all;
    return false;
  }
  po::notify(given);
  options.sync = !given.contains("no-sync");
  options.save_when_told_to_leave = !given.contains("leave-at-once");
  const auto& [micro_batches, micro_size, save_every, staging_mib] =
      std::tie(options.micro_batches, options.micro_size, options.save_every, options.staging_mib);
  if (micro_batches < 1 || micro_size < 1 || save_every < 1 || staging_mib > kMostStagingMib ||
      options.model.layers < 1 || options.model.heads < 1 || options.model.context < 1 ||
      options.model.width < 1 || options.model.width % options.model.heads != 0)
    throw po::error("a size is not positive or absurd, or the width is no multiple of the heads");
  return true;
}

/// What the job says, on standard output: `step N loss L`, `saved N`, `resumed PATH`, by rank 0.
class Voice {
 public:
  explicit Voice(int rank) : speaks_(rank == 0) {}
  template <class... Values>
  void say(const char* format, Values... values) const {
    if (!speaks_) return;
    std::printf(format, values...);  // NOLINT: all are literals
    std::fflush(stdout);
  }

 private:
  bool speaks_;
};

class Run {
 public:
  Run(cairn::Communicator& comm, const Options& options)
      : comm_(comm), options_(options), voice_(comm.rank()), job_(MPI_COMM_WORLD, comm, options) {}

  int train() {
    begin();
    while (job_.steps_done() < options_.steps) {
      const double loss = job_.step();
      voice_.say("step %lld loss %.17g\n", static_cast<long long>(job_.steps_done()), loss);
      if (notice_.received_by_any(comm_)) return leave();
      look_at_save();
      if (job_.steps_done() % options_.save_every == 0 || job_.steps_done() == options_.steps) save();
    }
    finish_save();
    return 0;
  }

 private:
  void begin() {
    const auto report = job_.resume();
    for (const auto& [path, reason] : report.skipped)
      voice_.say("passed over %s: %s\n", path.c_str(), reason.c_str());
    for (const std::string& warning : report.warnings) voice_.say("warning: %s\n", warning.c_str());
    if (report.path.empty()) return voice_.say("begun on %d ranks\n", comm_.size());
    voice_.say("resumed %s at step %lld on %d ranks\n", report.path.c_str(),
               static_cast<long long>(job_.steps_done()), comm_.size());
  }

  void save() {
    finish_save();
    saved_ = job_.steps_done();
    if (options_.blocking) return tell(job_.save());
    saving_.emplace(job_.start_save());
  }

  // It ends on each rank at its own time, and all leave a step together.
  void look_at_save() {
    if (!saving_) return;
    int has_ended = saving_->poll() ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &has_ended, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (has_ended != 0) finish_save();
  }

  void finish_save() {
    if (!saving_) return;
    tell(saving_->wait());
    saving_.reset();
  }

  void tell(const cairn::IterationReport& report) const {
    voice_.say("saved %s\n", report.path.c_str());
    for (const std::string& warning : report.warnings) voice_.say("warning: %s\n", warning.c_str());
  }

  int leave() {
    try {
      finish_save();
    } catch (const cairn::Error& error) {  // the same on all ranks: one more may do
      voice_.say("a save has failed: %s\n", error.what());
      saving_.reset();
      saved_ = -1;
    }
    if (options_.save_when_told_to_leave && job_.steps_done() != saved_) tell(job_.save());
    voice_.say("told to leave after step %lld\n", static_cast<long long>(job_.steps_done()));
    return cairn::kPreemptedStatus;
  }

  cairn::PreemptionNotice notice_;
  cairn::Communicator& comm_;
  const Options& options_;
  const Voice voice_;
  Job job_;
  std::optional<cairn::AsyncIteration> saving_;
  std::int64_t saved_ = -1;
};

int run(int argc, char** argv) {
  Options options;
  try {
    if (!parse(argc, argv, options)) return 0;
  } catch (const po::error& error) {
    std::fprintf(stderr, "elastic_training: %s\n", error.what());
    return 2;
  }
  at::set_num_threads(1);
  const auto comm = cairn::mpi_communicator(MPI_COMM_WORLD);
  try {
    return Run(*comm, options).train();
  } catch (const cairn::Error& error) {  // the same on all ranks
    if (comm->rank() == 0) std::fprintf(stderr, "elastic_training: %s\n", error.what());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "elastic_training: rank %d: %s\n", comm->rank(), error.what());
    comm->abort(1);
  }
  return 1;
}

}  // namespace
}  // namespace elastic

int main(int argc, char** argv) {
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  const int status = elastic::run(argc, argv);
  MPI_Finalize();
  return status;
}
