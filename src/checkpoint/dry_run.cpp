// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/dry_run.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string_view>
#include <unordered_set>

#include "base/byte_reader.hpp"
#include "engine/transfer.hpp"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kStretches = 4, kWindowsOfStretch = 8;
constexpr std::chrono::seconds kLongest(1);

struct Enough {};  // thrown where a window would be written

class Discard final : public WindowWriter {
 public:
  Discard(std::atomic<std::uint64_t>& bytes, Clock::time_point end) : bytes_(bytes), end_(end) {}
  void write(ByteRange, std::span<const std::byte> bytes, std::vector<CrcPiece>&) override {
    bytes_ += bytes.size();
    if (Clock::now() > end_) throw Enough();
  }

 private:
  std::atomic<std::uint64_t>& bytes_;
  const Clock::time_point end_;
};

std::uint64_t bytes_of(const Windows& windows, ByteRange owned) {
  return owned.size() == 0 ? 0 : windows.at(owned.end - 1).end - windows.at(owned.begin).begin;
}

// Spread over the share.
std::vector<ByteRange> stretches_of(ByteRange owned) {
  std::vector<ByteRange> stretches;
  for (std::uint64_t i = 0; i < kStretches; ++i) {
    const std::uint64_t begin = owned.begin + owned.size() * i / kStretches;
    const std::uint64_t end = owned.begin + owned.size() * (i + 1) / kStretches;
    if (begin < end) stretches.push_back({begin, std::min(end, begin + kWindowsOfStretch)});
  }
  return stretches;
}

}  // namespace

std::vector<DryRunEntry> dry_run_entries(std::span<const std::uint32_t> indices, const Catalog& source,
                                         const OutputCatalog* chosen) {
  const Catalog& catalog = chosen == nullptr ? source : chosen->catalog;
  std::vector<DryRunEntry> entries;
  for (const std::uint32_t index : indices) {
    const Entry& entry = catalog.entries()[index];
    const std::string name(catalog.name(entry));
    if (entry.is_tensor) {
      const TensorInfo& to = catalog.tensors()[entry.index];
      const TensorInfo& from =
          source.tensors()[chosen == nullptr ? entry.index : chosen->tensors[entry.index]];
      const auto shape = catalog.shape(to);
      entries.push_back({std::string(source.name(from)),
                         name,
                         true,
                         from.dtype,
                         to.dtype,
                         {shape.begin(), shape.end()},
                         catalog.byte_count(to)});
    } else {
      const auto& from = source.objects()[chosen == nullptr ? entry.index : chosen->objects[entry.index]];
      entries.push_back({std::string(source.name(from)),
                         name,
                         false,
                         DType::uint8,
                         DType::uint8,
                         {},
                         from.item.byte_length});
    }
  }
  return entries;
}

std::vector<DryRunFile> dry_run_files(const Catalog& source, const std::vector<DryRunOutput>& outputs,
                                      std::span<const GatheredFile> gathered) {
  std::unordered_set<std::string_view> is_read;
  for (const DryRunOutput& output : outputs) {
    for (const DryRunEntry& entry : output.entries) is_read.insert(entry.old_name);
  }
  std::vector<std::uint64_t> bytes(source.files().size(), 0);
  for (const Entry& entry : source.entries()) {
    if (!is_read.contains(source.name(entry))) continue;
    const auto add = [&](const StoredItem& item) {
      if (item.file != kNoFile) bytes[item.file] += item.byte_length;
    };
    if (entry.is_tensor)
      std::ranges::for_each(source.chunks(source.tensors()[entry.index]), add);
    else
      add(source.objects()[entry.index].item);
  }
  std::vector<DryRunFile> files;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == 0) continue;
    files.push_back(
        {source.files()[i], bytes[i], gathered.empty() ? std::optional<int>() : gathered[i].owner});
  }
  return files;
}

void measure_reading(Source& source, const PlannedOutputs& planned, ByteRange owned, int threads,
                     DryRunRank& rank) {
  const Windows windows = planned.windows();
  const auto begin = Clock::now();
  std::atomic<std::uint64_t> bytes{0};
  const MakeWriter discard = [&] { return std::make_unique<Discard>(bytes, begin + kLongest); };
  try {
    for (const ByteRange stretch : stretches_of(owned)) {
      WindowRuns some;
      some.add({stretch.begin, stretch.end});
      transfer(source, planned.window_layout(), planned.contents(), windows, some, discard,
               {.threads = threads, .verify_source = false, .progress = {}});
    }
  } catch (const Enough&) {
  }
  rank.measured_bytes = bytes;
  rank.measured_s = std::chrono::duration<double>(Clock::now() - begin).count();
  if (bytes == 0) return;
  rank.predicted_s =
      rank.measured_s * static_cast<double>(bytes_of(windows, owned)) / static_cast<double>(bytes);
}

Bytes encode(const DryRunRank& rank) {
  ByteWriter out;
  out.write(rank.measured_bytes);
  out.write(rank.measured_s);
  out.write(rank.predicted_s);
  return out.take();
}

namespace {

DryRunRank decode(const Bytes& bytes) {
  ByteReader in(bytes, "figures of a rank");
  DryRunRank rank;
  rank.measured_bytes = in.read<std::uint64_t>();
  rank.measured_s = in.read<double>();
  rank.predicted_s = in.read<double>();
  return rank;
}

}  // namespace

std::vector<DryRunRank> dry_run_ranks(const std::vector<Bytes>& measured, const PlannedOutputs& planned,
                                      int writing_ranks, const std::vector<DryRunFile>& files) {
  std::vector<DryRunRank> ranks;
  for (const Bytes& bytes : measured) {
    DryRunRank& rank = ranks.emplace_back(decode(bytes));
    const auto moved =
        planned.moved_by(planned.owned_windows(static_cast<int>(ranks.size()) - 1, writing_ranks));
    rank.read_bytes = moved.read_bytes;
    rank.written_bytes = moved.written_bytes;
  }
  if (files.empty() || !files.front().rank) return ranks;
  for (DryRunRank& rank : ranks) rank.read_bytes = 0;
  for (const DryRunFile& file : files)
    ranks.at(static_cast<std::size_t>(*file.rank)).read_bytes += file.bytes;
  return ranks;
}

}  // namespace cairn
