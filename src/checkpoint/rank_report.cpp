// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/rank_report.hpp"

#include <algorithm>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"

namespace cairn {
namespace {

constexpr std::size_t kMostHostBytes = 64, kMostDoingBytes = 384;
constexpr std::array<std::string_view, 7> kPhaseNames{
    "planning", "looking for the shards", "copying", "syncing", "publishing", "leaving", "reading"};

// Of a path the end says most.
std::string_view end_of(std::string_view text, std::size_t most) {
  return text.size() <= most ? text : text.substr(text.size() - most);
}

}  // namespace

std::string_view to_string(RunPhase phase) { return kPhaseNames.at(static_cast<std::size_t>(phase)); }

WireReport RankReport::encode() const {
  ByteWriter out;
  out.write(static_cast<std::uint8_t>(phase));
  out.write<std::uint8_t>(at_work ? 1 : 0);
  out.write<std::uint8_t>(last ? 1 : 0);
  out.write(round);
  for (const std::uint64_t number : {steps, done_bytes, total_bytes}) out.write(number);
  out.counted_text(end_of(host, kMostHostBytes));
  out.counted_text(end_of(doing, kMostDoingBytes));
  WireReport wire{};
  std::ranges::copy(out.view(), wire.begin());
  return wire;
}

RankReport RankReport::decode(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "report of a rank");
  RankReport report;
  report.phase = static_cast<RunPhase>(in.read<std::uint8_t>());
  report.at_work = in.read<std::uint8_t>() != 0;
  report.last = in.read<std::uint8_t>() != 0;
  report.round = in.read<std::uint32_t>();
  for (std::uint64_t* number : {&report.steps, &report.done_bytes, &report.total_bytes})
    *number = in.read<std::uint64_t>();
  report.host = std::string(in.counted_text());
  report.doing = std::string(in.counted_text());
  return report;
}

}  // namespace cairn
