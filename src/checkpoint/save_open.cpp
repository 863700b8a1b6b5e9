// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/save_open.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "checkpoint/replica_check.hpp"
#include "checkpoint/save_parts.hpp"
#include "engine/shard_writer.hpp"
#include "engine/transfer.hpp"
#include "formats/layout/iteration_names.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

constexpr int kRoot = 0;

// What all ranks must pass alike.
Bytes encode_arguments(const std::string& directory, const SaveOptions& options) {
  ByteWriter out;
  out.counted_text(directory);
  out.counted_text(options.checkpoint_id);
  out.write(static_cast<std::uint8_t>(options.plan.replicas));
  out.write(options.plan.split_bytes);
  out.write(options.plan.files_per_rank);
  out.counted_text(options.companion ? options.companion->file : "");
  for (const bool flag : {options.overwrite, options.sync, options.manifest, options.check_replicas})
    out.write<std::uint8_t>(flag);
  return out.take();
}

void require_equal_arguments(Communicator& comm, const LiveState& state, const Bytes& mine) {
  const Bytes first = on_root("comparing the arguments", comm, kRoot, [&] { return mine; });
  on_all_ranks("comparing the arguments", comm, [&] {
    if (state.description().rank() != comm.rank())
      fail(ErrorKind::invalid_argument, "save: the state is that of rank {}", state.description().rank());
    if (mine != first)
      fail(ErrorKind::invalid_argument, "save: directory or options are not those of rank 0");
  });
}

Bytes encode(const Fingerprint& print) {
  ByteWriter out;
  out.write(print.low);
  out.write(print.high);
  return out.take();
}

Fingerprint read_print(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "fingerprint");
  const auto low = in.read<std::uint64_t>();
  return {low, in.read<std::uint64_t>()};
}

// Collective. The id of the plan for what all ranks have.
Fingerprint agreed_id(Communicator& comm, const RankState& state, const SavePlanOptions& options) {
  const auto all = comm.gather(encode(state.fingerprint()), kRoot);
  const Bytes id = on_root("naming the plan", comm, kRoot, [&] {
    std::vector<Fingerprint> prints;
    for (const Bytes& one : all) prints.push_back(read_print(one));
    return encode(plan_id(prints, options));
  });
  return read_print(id);
}

void plan(Communicator& comm, SavePlans& plans, const RankState& state, OpenedSave& save) {
  const auto start = std::chrono::steady_clock::now();
  const Fingerprint id = agreed_id(comm, state, save.options.plan);
  save.part = plans.parts.find(id);
  save.report.planned = agree(comm, save.part ? 0 : 1) != 0;
  if (save.report.planned) {
    SharedPlan made = plan_together(comm, state, save.options.plan);
    if (made.whole) plans.wholes.store(std::move(made.whole));
    save.part = std::move(made.part);
    plans.parts.store(save.part);
  }
  if (comm.rank() == kRoot) save.whole = plans.wholes.find(id);
  save.report.plan_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void open_output(Communicator& comm, FileSystem& files, OpenedSave& save) {
  const Bytes index = on_root("opening the directory", comm, kRoot, [&] {
    std::vector<std::string> beside;
    if (save.options.manifest) beside.emplace_back(dcp::kManifestName);
    if (save.options.companion) beside.push_back(save.options.companion->file);
    save.output.emplace(dcp::DirectoryOutput::create(files, save.directory, save.options.overwrite, beside));
    ByteWriter out;
    out.write(save.output->first_index());
    return out.take();
  });
  save.first_index = ByteReader(index, "first index").read<std::uint32_t>();
}

void check_companion(const SaveOptions& options) {
  if (!options.companion) return;
  const std::string& name = options.companion->file;
  if (layout::is_plain_name(name) && name != dcp::kMetadataName && name != dcp::kManifestName &&
      !dcp::shard_numbers(name))
    return;
  fail(ErrorKind::invalid_argument, "save: '{}' cannot be a file beside the shards", escape_name(name));
}

// As many as have a buffer under the cap.
int threads_of(const Communicator& comm, const SaveOptions& options) {
  const std::uint64_t room = options.max_memory / kShardBuffer;
  if (room == 0) {
    fail(ErrorKind::invalid_argument, "a memory cap of {} bytes is too small: {} expected at least",
         options.max_memory, kShardBuffer);
  }
  const int wanted = options.threads > 0 ? options.threads : default_threads(comm.ranks_on_node());
  return static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(wanted), room));
}

}  // namespace

OpenedSave open_save(Communicator& comm, FileSystem& files, SavePlans& plans, const LiveState& state,
                     const std::string& directory, const SaveOptions& options) {
  OpenedSave save;
  save.directory = save.report.path = directory;
  save.options = options;
  require_equal_arguments(comm, state, encode_arguments(directory, options));
  on_all_ranks("checking the options", comm, [&] {
    require_path(directory);
    check_companion(options);
    save.threads = threads_of(comm, options);
  });
  plan(comm, plans, state.description(), save);
  if (options.check_replicas)
    require_equal_replicas(comm, state,
                           [&](std::size_t entry) { return stored_object(state.object(entry)); });
  open_output(comm, files, save);
  return save;
}

}  // namespace cairn
