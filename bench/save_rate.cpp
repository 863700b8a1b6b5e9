// SPDX-License-Identifier: BSD-3-Clause
// A job that saves the same state again and again, beside plain writes of the same memory by the same ranks.
//   mpirun -n N save_rate DIRECTORY MEBIBYTES TENSORS ROUNDS [sync]
// Prints, for each round, one JSON line: seconds of the slowest rank, and for saves the largest peak RSS
// beside the bytes of a rank's state. The first round is discarded.
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
    const double raw_s = timed(comm_, [&] { write_raw(); });
    if (is_reported(number)) std::printf("{\"what\": \"raw\", \"seconds\": %.4f}\n", raw_s);
    remove(raw_path().c_str());
    SaveReport report;
    const std::string directory = directory_ + "/cairn." + std::to_string(number);
    const double seconds = timed(comm_, [&] { report = saver_.save(state_.live, directory, options_); });
    if (is_reported(number))
      std::printf(
          "{\"what\": \"save\", \"seconds\": %.4f, \"plan_s\": %.4f, \"peak_rss_bytes\": %llu, "
          "\"state_bytes\": %llu}\n",
          seconds, report.plan_s, static_cast<unsigned long long>(report.peak_rss_bytes),
          static_cast<unsigned long long>(state_bytes()));
    if (comm_.rank() == 0) std::filesystem::remove_all(directory);
  }

 private:
  std::string raw_path() const { return directory_ + "/raw." + std::to_string(comm_.rank()); }

  void write_raw() const {
    constexpr std::size_t piece = 256 << 10;
    FileSystem& files = posix_file_system();
    const auto file = files.create_exclusive(raw_path());
    std::uint64_t at = 0;
    file->allocate(state_bytes());
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

  std::uint64_t state_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& tensor : state_.memory) bytes += tensor.size() * sizeof(float);
    return bytes;
  }

  bool is_reported(int number) const { return comm_.rank() == 0 && number > 0; }

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
