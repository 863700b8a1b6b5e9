// SPDX-License-Identifier: BSD-3-Clause
#include "commands/dry_run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "json_text.hpp"

namespace cairn {
namespace {

std::int64_t tensor_count(const DryRunOutput& output) {
  return std::ranges::count_if(output.entries, &DryRunEntry::is_tensor);
}

struct Measured {
  std::uint64_t bytes = 0;
  double seconds = 0;
};

Measured measured(const DryRunReport& report) {
  Measured all;
  for (const DryRunRank& rank : report.ranks) {
    all.bytes += rank.measured_bytes;
    all.seconds = std::max(all.seconds, rank.measured_s);
  }
  return all;
}

void print_entry(StandardOutput& out, const DryRunEntry& entry) {
  const auto names = fmt::format("{}\t{}", escape_name(entry.old_name), escape_name(entry.new_name));
  if (entry.is_tensor)
    out.write(fmt::format("tensor\t{}\t{}\t{}\t{}\t{}\n", names, info(entry.from).name, info(entry.to).name,
                          to_string(entry.shape), entry.bytes));
  else
    out.write(fmt::format("object\t{}\t-\t-\t-\t{}\n", names, entry.bytes));
}

/// Calls write(value) for each, with separators.
template <class Range, class Write>
void write_array(StandardOutput& out, std::string_view name, const Range& values, Write write) {
  out.write(fmt::format("\"{}\": [", name));
  const char* separator = "\n  ";
  for (const auto& value : values) {
    out.write(separator);
    separator = ",\n  ";
    write(value);
  }
  out.write("]");
}

void print_entry_json(StandardOutput& out, const DryRunEntry& entry) {
  out.write(fmt::format("{{\"old\": {}, \"new\": {}, \"kind\": \"{}\"", json_string(entry.old_name),
                        json_string(entry.new_name), entry.is_tensor ? "tensor" : "object"));
  if (entry.is_tensor)
    out.write(fmt::format(", \"source_dtype\": \"{}\", \"dtype\": \"{}\", \"shape\": {}",
                          info(entry.from).name, info(entry.to).name, json_array(entry.shape)));
  out.write(fmt::format(", \"bytes\": {}}}", entry.bytes));
}

void print_output_json(StandardOutput& out, const DryRunOutput& output) {
  const auto tensors = tensor_count(output);
  out.write(
      fmt::format("{{\"path\": {}, \"bytes\": {}, \"tensors\": {}, \"objects\": {}, \"free_bytes\": {},\n  ",
                  json_string(output.path), output.bytes, tensors, std::ssize(output.entries) - tensors,
                  output.free_bytes));
  write_array(out, "entries", output.entries, [&](const auto& entry) { print_entry_json(out, entry); });
  out.write("}");
}

}  // namespace

void print_dry_run(StandardOutput& out, const DryRunReport& report) {
  for (const DryRunOutput& output : report.outputs) {
    const auto tensors = tensor_count(output);
    out.write(fmt::format("output\t{}\t{}\t{}\t{}\t{}\n", escape_name(output.path), output.bytes, tensors,
                          std::ssize(output.entries) - tensors, output.free_bytes));
    for (const DryRunEntry& entry : output.entries) print_entry(out, entry);
  }
  for (const DryRunFile& file : report.files) {
    out.write(fmt::format("file\t{}\t{}\t{}\n", escape_name(file.name), file.bytes,
                          file.rank ? std::to_string(*file.rank) : "all"));
  }
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    out.write(fmt::format("rank\t{}\t{}\t{}\n", rank, report.ranks[rank].read_bytes,
                          report.ranks[rank].written_bytes));
  }
  const auto [bytes, seconds] = measured(report);
  out.write(fmt::format("reading\t{:.3f}\t{}\t{:.3f}\n", report.seconds(), bytes, seconds));
}

void print_dry_run_json(StandardOutput& out, const DryRunReport& report) {
  out.write("{\"dry_run\": true,\n ");
  write_array(out, "outputs", report.outputs, [&](const auto& output) { print_output_json(out, output); });
  out.write(",\n ");
  write_array(out, "files", report.files, [&](const DryRunFile& file) {
    out.write(fmt::format("{{\"file\": {}, \"bytes\": {}, \"rank\": {}}}", json_string(file.name), file.bytes,
                          file.rank ? std::to_string(*file.rank) : "null"));
  });
  out.write(",\n ");
  write_array(out, "ranks", report.ranks, [&](const DryRunRank& rank) {
    out.write(
        fmt::format("{{\"read_bytes\": {}, \"written_bytes\": {}}}", rank.read_bytes, rank.written_bytes));
  });
  const auto [bytes, seconds] = measured(report);
  out.write(fmt::format(",\n \"write\": \"{}\",\n", report.gather ? "gather" : "shared"));
  out.write(fmt::format(
      " \"reading\": {{\"seconds\": {:.3f}, \"measured_bytes\": {}, \"measured_seconds\": {:.3f}}},\n",
      report.seconds(), bytes, seconds));
  out.write(fmt::format(" \"skipped\": {},\n \"warnings\": {}}}\n", json_array(report.skipped),
                        json_array(report.warnings)));
}

}  // namespace cairn
