// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/background_save.hpp"

#include <algorithm>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "checkpoint/process_memory.hpp"
#include "checkpoint/save_publish.hpp"
#include "parallel/agree.hpp"

namespace cairn {

void BackgroundSave::add(OpenedSave save, const LiveState& state) noexcept {
  Part& part = parts_.emplace_back(std::move(save), std::nullopt);
  try {
    if (!failure_) part.shards.emplace(files_, part.save, state);
  } catch (...) {
    failure_ = current_error();
  }
}

StagingReport BackgroundSave::stage(Pool<std::byte>& room, std::uint64_t cap) noexcept {
  StagingReport report;
  try {
    if (!failure_) stage_all(room, cap, report);
  } catch (...) {
    failure_ = current_error();
  }
  return report;
}

void BackgroundSave::stage_all(Pool<std::byte>& room, std::uint64_t cap, StagingReport& report) {
  std::uint64_t objects = 0, payloads = 0;
  for (const Part& part : parts_) {
    objects += part.shards->object_bytes();
    payloads += part.shards->staging_bytes();
  }
  const std::uint64_t most = cap - std::min(cap, objects);
  room.shrink(0);
  room.extend(std::min(payloads, most));
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part)
    report.staged_bytes += part->shards->stage(room.all().subspan(report.staged_bytes));
  report.direct_bytes = payloads - report.staged_bytes;
  report.over_cap = report.direct_bytes > 0;
  const auto start = Clock::now();
  step_ = "writing the shards";
  for (Part& part : parts_) part.shards->write_unstaged();
  if (report.over_cap) report.direct_s = std::chrono::duration<double>(Clock::now() - start).count();
}

Bytes BackgroundSave::work() {
  if (failure_) throw *failure_;
  ByteWriter out;
  for (Part& part : parts_) {
    part.shards->write();
    part.shards->outlive_signals();
    out.counted_text(as_text(encode(part.shards->written())));
  }
  out.write(peak_rss_bytes());
  return out.take();
}

BackgroundSave::Results BackgroundSave::read_results(const std::vector<Bytes>& results) const {
  Results all;
  all.written.resize(parts_.size());
  for (const Bytes& result : results) {
    ByteReader in(result, "what a rank has written");
    for (auto& written : all.written) {
      const auto items = as_bytes(in.counted_text());
      written.emplace_back(items.begin(), items.end());
    }
    all.peak_rss_bytes = std::max(all.peak_rss_bytes, in.read<std::uint64_t>());
  }
  return all;
}

void BackgroundSave::keep_all() {
  for (Part& part : parts_) part.shards->keep();
}

void BackgroundSave::undo() noexcept {
  for (Part& part : parts_) part.shards.reset();
}

void BackgroundSave::leave() noexcept {
  for (Part& part : parts_)
    if (part.shards) part.shards->keep();
}

void require_equal_policies(Communicator& comm, WhileSaving policy) {
  const Bytes mine{static_cast<std::byte>(policy)};
  const Bytes first = on_root("comparing the arguments", comm, 0, [&] { return mine; });
  on_all_ranks("comparing the arguments", comm, [&] {
    if (mine != first)
      fail(ErrorKind::invalid_argument, "async saves: what to do while saving is not as on rank 0");
  });
}

bool admit(Communicator& comm, Background& background, WhileSaving policy) {
  if (agree(comm, background.is_busy() ? 1 : 0) == 0) return true;
  if (policy == WhileSaving::skip) return false;
  on_all_ranks("beginning a save", comm, [&] {
    if (policy == WhileSaving::refuse)
      throw Error(ErrorKind::invalid_argument, "an earlier save is still under way",
                  "wait for it, or let saves wait or be skipped");
  });
  background.finish();
  return true;
}

}  // namespace cairn
