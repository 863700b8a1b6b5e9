// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include "base/crc32.hpp"
#include "commands/commands.hpp"
#include "formats/dcp/zstd_stream.hpp"
#include "json_text.hpp"

#ifndef CAIRN_HAVE_MPI
#define CAIRN_MPI_TEXT ""
#endif

namespace cairn {
namespace {

struct Part {
  std::string_view key, label;
  std::string what;  // empty: not compiled in
};

// HDF5 is linked by nothing yet; libtorch by the library for training programs only.
std::vector<Part> parts() {
  return {{"mpi", "MPI", CAIRN_MPI_TEXT},
          {"crc32", "CRC-32", crc32_engine()},
          {"zstd", "zstd", dcp::zstd_version()},
          {"hdf5", "HDF5", ""},
          {"torch", "torch", ""},
          {"build", "build", CAIRN_BUILD_TYPE}};
}

void print_text(StandardOutput& out) {
  out.write("cairn " CAIRN_VERSION "\n");
  for (const auto& [key, name, what] : parts()) {
    out.write(fmt::format("{}\t{}\n", name, what.empty() ? "not compiled in" : what));
  }
}

void print_json(StandardOutput& out) {
  out.write(fmt::format("{{\"version\": {}", json_string(CAIRN_VERSION)));
  for (const auto& [name, label, what] : parts()) {
    out.write(fmt::format(", {}: {}", json_string(name), what.empty() ? "null" : json_string(what)));
  }
  out.write("}\n");
}

int run(Context& context) {
  return run_on_speaker(context, "printing the version", [&](StandardOutput& out) {
    if (context.flags.json)
      print_json(out);
    else
      print_text(out);
    return 0;
  });
}

}  // namespace

Command version_command() {
  return {Grammar("version", "", "The version, and the parts this cairn was compiled with."),
          [](const Grammar& grammar, const Parsed& parsed) -> Action {
            grammar.expect_operands(parsed, 0, 0);
            return run;
          }};
}

}  // namespace cairn
