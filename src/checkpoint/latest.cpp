// SPDX-License-Identifier: BSD-3-Clause
#include <optional>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "cairn/checkpoint.hpp"
#include "checkpoint/iteration_search.hpp"
#include "checkpoint/training_wire.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

constexpr int kRoot = 0;

LatestReport report_of(const IterationSearch& search, bool is_found) {
  LatestReport report;
  report.skipped = search.skipped();
  if (search.is_empty()) return report;
  report.warnings = search.warnings();
  if (!is_found) return report;
  report.path = search.path();
  report.iteration = search.iteration().number;
  report.components = search.judgement().components;
  return report;
}

Bytes encode(const LatestReport& report, bool is_last) {
  ByteWriter out;
  out.write(std::uint8_t{is_last});
  out.counted_text(report.path);
  write_number(out, report.iteration);
  write_texts(out, report.components);
  write_passed(out, report.skipped);
  write_texts(out, report.warnings);
  return out.take();
}

LatestReport decode(std::span<const std::byte> bytes, bool& is_last) {
  ByteReader in(bytes, "latest iteration");
  is_last = in.read<std::uint8_t>() != 0;
  LatestReport report;
  report.path = in.counted_text();
  report.iteration = read_number(in);
  report.components = read_texts(in);
  report.skipped = read_passed(in);
  report.warnings = read_texts(in);
  return report;
}

// Why the payload will not do; empty: it will.
std::string payload_fault(Communicator& comm, FileSystem& files, const LatestReport& found) {
  for (const std::string& name : found.components) {
    VerifyOptions options;
    options.path = name.empty() ? found.path : layout::joined(found.path, name);
    try {
      const VerifyReport report = verify(comm, files, options);
      if (!report.faults.empty())
        return fmt::format("{} is damaged: {} ({} faults)", name.empty() ? "it" : name + "/",
                           report.faults.faults()[0].message, report.faults.count());
    } catch (const Error& error) {  // the same one on all ranks
      return error.message();
    }
  }
  return {};
}

}  // namespace

LatestReport find_latest(Communicator& comm, FileSystem& files, const std::string& root,
                         bool verify_payload) {
  std::optional<IterationSearch> search;  // the coordinator's; it holds the pins
  std::string fault;
  while (true) {
    bool is_last = false;  // the coordinator's word, as the other ranks may have been called otherwise
    const Bytes message = on_root("looking for the latest iteration", comm, kRoot, [&] {
      if (!search)
        search.emplace(files, layout::tree_directory(files, root));
      else
        search->pass_over(fault);
      const bool is_found = search->next();
      return encode(report_of(*search, is_found), !is_found || !verify_payload);
    });
    const LatestReport report = decode(message, is_last);
    if (is_last) return report;
    fault = payload_fault(comm, files, report);
    if (fault.empty()) return report;
  }
}

}  // namespace cairn
