// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/verify_report.hpp"

#include <array>

#include "base/byte_reader.hpp"

namespace cairn {
namespace {

constexpr std::array kNumbers{&VerifyReport::tensors,       &VerifyReport::objects,
                              &VerifyReport::chunks,        &VerifyReport::files,
                              &VerifyReport::torch_files,   &VerifyReport::payload_bytes,
                              &VerifyReport::checked_bytes, &VerifyReport::unchecked_items,
                              &VerifyReport::read_bytes,    &VerifyReport::peak_rss_bytes};

}  // namespace

void write_fault(ByteWriter& out, const Fault& fault) {
  out.write(static_cast<std::uint8_t>(fault.kind));
  out.write(fault.byte_offset);
  for (const auto* text : {&fault.name, &fault.file, &fault.message}) out.counted_text(*text);
}

Fault read_fault(ByteReader& in) {
  Fault fault{};
  fault.kind = static_cast<FaultKind>(in.read<std::uint8_t>());
  fault.byte_offset = in.read<std::uint64_t>();
  for (auto* text : {&fault.name, &fault.file, &fault.message}) *text = std::string(in.counted_text());
  return fault;
}

Bytes encode_report(const VerifyReport& report) {
  ByteWriter out;
  for (const auto number : kNumbers) out.write(report.*number);
  out.write(report.seconds);
  out.write<std::int32_t>(report.ranks);
  out.write<std::int32_t>(report.threads);
  for (const auto* texts : {&report.components, &report.warnings}) {
    out.write<std::uint64_t>(texts->size());
    for (const auto& text : *texts) out.counted_text(text);
  }
  out.write<std::uint64_t>(report.faults.count());
  for (const Fault& fault : report.faults.faults()) write_fault(out, fault);
  return out.take();
}

VerifyReport decode_report(const Bytes& bytes) {
  ByteReader in(bytes, "verify report");
  VerifyReport report;
  for (const auto number : kNumbers) report.*number = in.read<std::uint64_t>();
  report.seconds = in.read<double>();
  report.ranks = in.read<std::int32_t>();
  report.threads = in.read<std::int32_t>();
  for (auto* texts : {&report.components, &report.warnings}) {
    for (auto count = in.read<std::uint64_t>(); count > 0; --count)
      texts->push_back(std::string(in.counted_text()));
  }
  const auto count = in.read<std::uint64_t>();
  while (!in.at_end()) report.faults.add(read_fault(in));
  report.faults.add_unlisted(count - report.faults.count());
  return report;
}

}  // namespace cairn
