// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/consolidate_report.hpp"

#include <array>

#include "base/byte_reader.hpp"

namespace cairn {
namespace {

constexpr std::array kNumbers{&ConsolidateReport::read_bytes, &ConsolidateReport::written_bytes,
                              &ConsolidateReport::verified_bytes, &ConsolidateReport::resumed_bytes,
                              &ConsolidateReport::peak_rss_bytes};

}  // namespace

Bytes encode_report(const ConsolidateReport& report) {
  ByteWriter out;
  for (const auto number : kNumbers) out.write(report.*number);
  out.write(report.seconds);
  out.write<std::int32_t>(report.ranks);
  out.write<std::int32_t>(report.threads);
  out.write<std::uint8_t>(report.synced ? 1 : 0);
  for (const auto* texts : {&report.skipped, &report.warnings}) {
    out.write<std::uint64_t>(texts->size());
    for (const auto& text : *texts) out.counted_text(text);
  }
  for (const OutputReport& output : report.outputs) {
    out.counted_text(output.path);
    for (const std::uint64_t number : {output.bytes, output.tensors, output.objects}) out.write(number);
  }
  return out.take();
}

ConsolidateReport decode_consolidate_report(const Bytes& bytes) {
  ByteReader in(bytes, "consolidation report");
  ConsolidateReport report;
  for (const auto number : kNumbers) report.*number = in.read<std::uint64_t>();
  report.seconds = in.read<double>();
  report.ranks = in.read<std::int32_t>();
  report.threads = in.read<std::int32_t>();
  report.synced = in.read<std::uint8_t>() != 0;
  for (auto* texts : {&report.skipped, &report.warnings}) {
    for (auto left = in.read<std::uint64_t>(); left > 0; --left) texts->emplace_back(in.counted_text());
  }
  while (!in.at_end()) {
    OutputReport output{std::string(in.counted_text()), 0, 0, 0};
    for (std::uint64_t* number : {&output.bytes, &output.tensors, &output.objects})
      *number = in.read<std::uint64_t>();
    report.outputs.push_back(std::move(output));
  }
  return report;
}

}  // namespace cairn
