// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/save.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "checkpoint/own_shards.hpp"
#include "checkpoint/process_memory.hpp"
#include "checkpoint/run_watch.hpp"
#include "checkpoint/save_open.hpp"
#include "checkpoint/save_publish.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

constexpr int kRoot = 0;
using Clock = std::chrono::steady_clock;

// Collective. Writes this rank's shards and gives them to `shards` even when it throws.
void write_shards(Communicator& comm, RunWatch& watch, const OpenedSave& save, const LiveState& state,
                  std::optional<OwnShards>& shards) {
  watch.enter(RunPhase::copying);
  on_all_ranks("writing the shards", comm, [&] {
    watch.work([&] {
      shards.emplace(watch.files(), save, state);
      shards->write();
    });
  });
}

// Collective.
void publish(Communicator& comm, RunWatch& watch, OpenedSave& save, OwnShards& shards,
             Clock::time_point start) {
  watch.enter(RunPhase::publishing);
  shards.outlive_signals();
  const std::vector<Bytes> written = comm.gather(encode(shards.written()), kRoot);
  ByteWriter peak;
  peak.write(peak_rss_bytes());
  const std::vector<Bytes> peaks = comm.gather(peak.view(), kRoot);
  std::optional<Error> after;  // it was published, and something failed nevertheless
  const Bytes summary = on_root("publishing", comm, kRoot, [&] {
    watch.work([&] { after = publish_save(save, written); });
    for (const Bytes& one : peaks)
      save.report.peak_rss_bytes =
          std::max(save.report.peak_rss_bytes, ByteReader(one, "peak").read<std::uint64_t>());
    save.report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    try {
      return encode_summary(save.report);
    } catch (...) {
      if (!after) after = current_error();
      return Bytes{};
    }
  });
  shards.keep();
  watch.enter(RunPhase::leaving);
  on_all_ranks("publishing", comm, [&] {
    if (after) throw *after;
  });
  decode_summary(summary, save.report);
}

}  // namespace

SaveReport save_with(Communicator& comm, FileSystem& files, SavePlans& plans, const LiveState& state,
                     const std::string& directory, const SaveOptions& options) {
  const auto start = Clock::now();
  RunWatch watch(comm, files, {{}, options.stall_timeout_s, options.stalled});
  return watch.guarded([&] {
    OpenedSave save = open_save(comm, watch.files(), plans, state, directory, options);
    std::optional<OwnShards> shards;  // goes before the lock does
    write_shards(comm, watch, save, state, shards);
    publish(comm, watch, save, *shards, start);
    return save.report;
  });
}

struct Saver::Plans : SavePlans {};

Saver::Saver(Communicator& comm, FileSystem& files)
    : comm_(comm.duplicate()), files_(files), plans_(std::make_unique<Plans>()) {}

Saver::~Saver() = default;

SaveReport Saver::save(const LiveState& state, const std::string& directory, const SaveOptions& options) {
  return save_with(*comm_, files_, *plans_, state, directory, options);
}

SaveReport save(Communicator& comm, FileSystem& files, const LiveState& state, const std::string& directory,
                const SaveOptions& options) {
  return Saver(comm, files).save(state, directory, options);
}

}  // namespace cairn
