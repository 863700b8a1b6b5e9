// SPDX-License-Identifier: BSD-3-Clause
// A job that saves the same state again and again, beside plain writes of the same memory by the same ranks.
//   mpirun -n N save_rate DIRECTORY MEBIBYTES TENSORS ROUNDS [sync]
// Prints, for each round, one JSON line: seconds of the slowest rank. The first round is discarded.
//   raw    each rank: one file, its size reserved, then for every 256 KiB of its tensors CRC-32 and pwrite
//   save   cairn::Saver into a new directory, which is removed afterwards
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/crc32.hpp"
#include "cairn/mpi.hpp"
#include "cairn/save.hpp"
#include "float_state.hpp"
#include "timed.hpp"

namespace cairn {
namespace {

class Job {
 public:
  Job(Communicator& comm, std::string directory, std::uint64_t mebibytes, std::uint64_t tensors, bool sync)
      : comm_(comm),
        directory_(std::move(directory)),
        state_(comm, mebibytes, tensors),
        saver_(comm, posix_file_system()) {
    options_.sync = sync;
    options_.threads = 1;
  }

  void round(int number) {
    report("raw", number, timed(comm_, [&] { write_raw(); }), 0);
    remove(raw_path().c_str());
    double plan_s = 0;
    const std::string directory = directory_ + "/cairn." + std::to_string(number);
    const double seconds =
        timed(comm_, [&] { plan_s = saver_.save(state_.live, directory, options_).plan_s; });
    report("save", number, seconds, plan_s);
    if (comm_.rank() == 0) std::filesystem::remove_all(directory);
  }

 private:
  std::string raw_path() const { return directory_ + "/raw." + std::to_string(comm_.rank()); }

  void write_raw() const {
    constexpr std::size_t piece = 256 << 10;
    FileSystem& files = posix_file_system();
    const auto file = files.create_exclusive(raw_path());
    std::uint64_t at = 0, bytes = 0;
    for (const auto& tensor : state_.memory) bytes += tensor.size() * sizeof(float);
    file->allocate(bytes);
    std::uint32_t crc = 0;
    for (const auto& tensor : state_.memory) {
      for (auto rest = std::as_bytes(std::span(tensor)); !rest.empty();
           rest = rest.subspan(std::min(piece, rest.size()))) {
        const auto here = rest.first(std::min(piece, rest.size()));
        crc = crc32(here, crc);
        file->write(at, here);
        at += here.size();
      }
    }
    if (options_.sync) file->sync();
    file->close();
  }

  void report(const char* what, int number, double seconds, double plan_s) const {
    if (comm_.rank() == 0 && number > 0)
      std::printf("{\"what\": \"%s\", \"seconds\": %.4f, \"plan_s\": %.4f}\n", what, seconds, plan_s);
  }

  Communicator& comm_;
  std::string directory_;
  FloatState state_;
  Saver saver_;
  SaveOptions options_;
};

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  cairn::MpiSession session(argc, argv);
  const auto comm = session.world();
  cairn::Job job(*comm, argv[1], std::strtoull(argv[2], nullptr, 10), std::strtoull(argv[3], nullptr, 10),
                 argc > 5 && std::string(argv[5]) == "sync");
  for (int round = 0; round <= std::atoi(argv[4]); ++round) job.round(round);
  return 0;
}
