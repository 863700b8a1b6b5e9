// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/background_save.hpp"

#include <algorithm>
#include <bit>
#include <exception>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "checkpoint/process_memory.hpp"
#include "checkpoint/save_publish.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kLeastStagingBytes = 2 * kShardBuffer;  // one block is filled while another drains

}  // namespace

void BackgroundSave::add(OpenedSave save, const LiveState& state) noexcept {
  Part& part = parts_.emplace_back(std::move(save), std::nullopt);
  try {
    if (!failure_) part.shards.emplace(files_, part.save, state);
  } catch (...) {
    failure_ = current_error();
  }
}

std::shared_ptr<StagingBuffers> BackgroundSave::make_buffers(Pool<std::byte>& room,
                                                             std::uint64_t cap) noexcept {
  try {
    if (!failure_) plan_staging(room, cap);
  } catch (...) {
    failure_ = current_error();
  }
  return buffers_;
}

void BackgroundSave::plan_staging(Pool<std::byte>& room, std::uint64_t cap) {
  std::uint64_t objects = 0;
  for (const Part& part : parts_) {
    objects += part.shards->object_bytes();
    payload_bytes_ += part.shards->staging_bytes();
  }
  const std::uint64_t most = std::max(kLeastStagingBytes, cap - std::min(cap, objects));
  const std::uint64_t piece = std::clamp(std::bit_floor(most / 2), kShardBuffer, kShardPiece);
  std::uint64_t blocks = 0;
  for (Part& part : parts_) blocks = part.shards->plan_staging(piece, blocks);
  room.shrink(0);
  room.extend(std::min(payload_bytes_, most));
  buffers_ = std::make_shared<StagingBuffers>(room.all());
}

void BackgroundSave::stage() noexcept {
  try {
    for (Part& part : parts_) part.shards->stage(*buffers_);
  } catch (...) {
    buffers_->stop(StagingBuffers::Side::fill, std::current_exception());
  }
  const auto buffers = buffers_;  // the work may end as soon as they know
  buffers->finish_filling();
}

Bytes BackgroundSave::work() {
  if (failure_) throw *failure_;
  buffers_->require_going();
  ByteWriter out;
  step_ = "writing the shards";
  try {
    write_all(out);
  } catch (...) {
    buffers_->stop(StagingBuffers::Side::drain, std::current_exception());
    buffers_->await_filling_finished();
    if (buffers_->stopped() == StagingBuffers::Side::fill) step_ = "staging the tensors";
    throw;
  }
  buffers_->await_filling_finished();
  return out.take();
}

void BackgroundSave::write_all(ByteWriter& out) {
  for (Part& part : parts_) {
    part.shards->write(buffers_.get());
    part.shards->outlive_signals();
    out.counted_text(as_text(encode(part.shards->written())));
  }
  out.write(peak_rss_bytes());
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

StartedSave stage_and_start(Background& background, std::unique_ptr<BackgroundSave> work,
                            Pool<std::byte>& room, std::uint64_t cap,
                            BackgroundSave::Clock::time_point start) {
  BackgroundSave& save = *work;
  const auto buffers = save.make_buffers(room, cap);
  const bool over_cap = buffers != nullptr && !save.fits();
  if (buffers && !over_cap) save.stage();
  StartedSave started{background.start(std::move(work)), {}};
  if (over_cap) save.stage();
  StagingReport& report = started.staging;
  if (buffers) {
    report.staged_bytes = buffers->taken_bytes();
    report.over_cap = over_cap;
    report.drained_bytes = report.staged_bytes - std::min(report.staged_bytes, buffers->size());
    report.drained_s = buffers->waited_s();
  }
  report.blocked_s = std::chrono::duration<double>(BackgroundSave::Clock::now() - start).count();
  return started;
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
