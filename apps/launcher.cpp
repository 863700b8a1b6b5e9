// SPDX-License-Identifier: BSD-3-Clause
#include "launcher.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "base/fail.hpp"
#ifdef CAIRN_HAVE_MPI
#include "cairn/mpi.hpp"
#endif

namespace cairn {
namespace {

#ifdef CAIRN_HAVE_MPI
constexpr bool kHaveMpi = true;
#else
constexpr bool kHaveMpi = false;
#endif

bool is_set(const char* variable) { return std::getenv(variable) != nullptr; }

std::optional<int> first_number(std::initializer_list<const char*> variables) {
  for (const char* variable : variables) {
    const char* text = std::getenv(variable);
    int number = 0;
    if (text == nullptr) continue;
    const auto [end, error] = std::from_chars(text, text + std::strlen(text), number);
    if (error == std::errc{} && *end == '\0' && number >= 0) return number;
  }
  return std::nullopt;
}

void check_choice(const CommonFlags& flags, const Launched& launch) {
  if (flags.mpi && flags.no_mpi) fail(ErrorKind::invalid_argument, "--mpi and --no-mpi exclude each other");
  if (flags.mpi && !kHaveMpi) fail(ErrorKind::invalid_argument, "--mpi: this cairn was built without MPI");
  if (!launch.by_launcher || !launch.several() || (kHaveMpi && !flags.no_mpi)) return;
  const auto count = launch.processes ? fmt::format("{} processes", *launch.processes) : "several processes";
  fail(ErrorKind::invalid_argument, "a launcher started {}, but {}: each would do the whole work alone",
       count, kHaveMpi ? "--no-mpi forbids that they share it" : "this cairn was built without MPI");
}

}  // namespace

Launched launched() {
  Launched found;
  found.by_launcher = is_set("OMPI_COMM_WORLD_SIZE") || is_set("PMIX_RANK") || is_set("PMI_RANK");
  if (!found.by_launcher) return found;
  found.rank = first_number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}).value_or(0);
  // srun with PMIx tells the step's size in a variable of its own only.
  found.processes = first_number({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"});
  return found;
}

#ifdef CAIRN_HAVE_MPI
struct World::Session {
  Session(int& argc, char**& argv) : mpi(argc, argv) {}
  MpiSession mpi;
};

World::World(const CommonFlags& flags, const Launched& launch, int& argc, char**& argv) {
  check_choice(flags, launch);
  if (flags.no_mpi || !(flags.mpi || launch.by_launcher)) {
    comm_ = solo_communicator();
    return;
  }
  session_ = std::make_unique<Session>(argc, argv);
  comm_ = session_->mpi.world();
  if (launch.processes && *launch.processes > comm_->size()) {
    fail(ErrorKind::invalid_argument,
         "the launcher started {} processes, but MPI sees {}: is it the mpirun of the MPI that cairn was "
         "built with?",
         *launch.processes, comm_->size());
  }
}
#else
struct World::Session {};

World::World(const CommonFlags& flags, const Launched& launch, int&, char**&) {
  check_choice(flags, launch);
  comm_ = solo_communicator();
}
#endif

World::~World() = default;

}  // namespace cairn
