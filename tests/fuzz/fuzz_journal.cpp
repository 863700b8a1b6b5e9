// SPDX-License-Identifier: BSD-3-Clause
// The journal of a consolidation from any bytes: as they are, and as what its entries hold, under right CRCs.
#include <cstdlib>

#include "base/crc32.hpp"
#include "cairn/error.hpp"
#include "checkpoint/journal.hpp"

namespace {

using namespace cairn;

void decode(std::span<const std::byte> bytes) {
  try {
    const JournalContent content = decode_journal(bytes, "input");
    if (content.bytes > bytes.size() || !difference(content.job, content.job).empty()) std::abort();
    std::uint64_t end = 0;
    for (const WindowRun& run : content.finished) {
      if (run.begin < end || run.end <= run.begin || run.end > content.job.window_count) std::abort();
      end = run.end;
    }
    if (content.is_complete() && content.tails.size() != content.job.outputs.size()) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt) std::abort();
  }
}

void append_entry(ByteWriter& out, std::uint32_t kind, std::uint32_t sequence,
                  std::span<const std::byte> payload) {
  ByteWriter head;
  head.write(kind);
  head.write(sequence);
  head.write<std::uint64_t>(payload.size());
  out.append(head.view());
  out.write(crc32(head.view()));
  out.append(payload);
  out.write(crc32(payload));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  decode(input);
  ByteWriter as_job;
  as_job.text("cairn journal 1\n");
  append_entry(as_job, 1, 0, input);
  decode(as_job.view());
  JournalJob job;
  job.window_count = 1000;
  job.outputs = {{"/out/m.pth", 5000, 1}};
  for (std::uint32_t kind = 2; kind < 5; ++kind) {
    ByteWriter out;
    out.append(begin_journal(job));
    append_entry(out, kind, 1, input);
    decode(out.view());
  }
  return 0;
}
