// SPDX-License-Identifier: BSD-3-Clause
// resume_job SOURCE DEST: a slow conversion that can be continued, with many entries in its journal. It is
// there to be killed, by tests/cli/kill_ranks.py.
#include <chrono>
#include <cstdio>

#include "cairn/convert.hpp"
#include "cairn/error.hpp"
#include "cairn/mpi.hpp"
#include "storage/fault.hpp"

int main(int argc, char** argv) {
  cairn::MpiSession session(argc, argv);
  if (argc != 3) return 2;
  const auto world = session.world();
  cairn::ConvertOptions options;
  options.source = argv[1];
  options.destination = argv[2];
  options.threads = 1;
  options.resume = true;
  options.journal_interval_s = 0.01;
  cairn::FaultyFileSystem files(cairn::posix_file_system());
  cairn::InjectedFault slow{.operation = cairn::Operation::write, .path_contains = ".cairn-part"};
  slow.delay = std::chrono::milliseconds(10);
  files.inject(slow);
  if (cairn::target_of(files, options.destination) == cairn::ConvertTo::dcp) {
    options.ranks = 3;
    slow.path_contains = options.destination + "/__";
    files.inject(slow);
  }
  try {
    const auto report = cairn::convert(*world, files, options);
    if (world->rank() == 0) std::printf("%llu\n", static_cast<unsigned long long>(report.resumed_bytes));
    return 0;
  } catch (const cairn::Error& error) {
    if (world->rank() == 0) std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
