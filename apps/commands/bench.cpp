// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include "checkpoint/process_memory.hpp"
#include "commands/commands.hpp"
#include "engine/raw_workloads.hpp"
#include "json_text.hpp"

namespace cairn {
namespace {

struct Wanted {
  std::string name;
  RawWorkload workload;
  RawOptions options;
  int runs;
};

int run(Context& context, const Wanted& wanted) {
  return run_on_speaker(context, "measuring", [&](StandardOutput& out) {
    auto& files = posix_file_system();
    const auto type = files.type_name(wanted.options.directory);
    for (int i = 0; i < wanted.runs; ++i) {
      const double seconds = run_raw(files, wanted.workload, wanted.options);
      out.write(fmt::format(
          "{{\"workload\": {}, \"bytes\": {}, \"piece_bytes\": {}, \"threads\": {}, "
          "\"seconds\": {:.6f}, \"gb_per_s\": {:.3f}, \"peak_rss_bytes\": {}, \"ranks\": 1, "
          "\"build\": {}, \"file_system\": {}}}\n",
          json_string(wanted.name), wanted.options.bytes, wanted.options.piece_bytes, wanted.options.threads,
          seconds, static_cast<double>(wanted.options.bytes) / seconds / 1e9, peak_rss_bytes(),
          json_string(CAIRN_BUILD_TYPE), json_string(type)));
    }
    return 0;
  });
}

Action understand(const Grammar& grammar, const Parsed& parsed) {
  grammar.expect_operands(parsed, 1, 1);
  const auto workload = raw_workload(parsed.operands[0]);
  if (!workload) grammar.refuse(fmt::format("there is no workload '{}'", parsed.operands[0]));
  Wanted wanted{parsed.operands[0], *workload, {}, number_option("--runs", parsed.text("runs"), 1, 1000)};
  wanted.options.bytes = size_option("--bytes", parsed.text("bytes"));
  wanted.options.piece_bytes = size_option("--piece", parsed.text("piece"));
  wanted.options.threads = number_option("--threads", parsed.text("threads"), 1, 64);
  wanted.options.directory = path_operand(parsed.text("dir"));
  return [wanted](Context& context) { return run(context, wanted); };
}

}  // namespace

Command bench_command() {
  Grammar grammar("bench", "WORKLOAD",
                  "What this machine gives: memcpy, crc, read, write or copy; one JSON line a run.");
  grammar.add()("bytes", word("SIZE")->default_value("1GiB"), "bytes to move")(
      "piece", word("SIZE")->default_value("1MiB"), "bytes at a time")(
      "threads", word("N")->default_value("2"), "threads")("runs", word("N")->default_value("3"), "runs")(
      "dir", word("PATH")->default_value("."), "where read, write and copy make their files");
  return {std::move(grammar), understand};
}

}  // namespace cairn
