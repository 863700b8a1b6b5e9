// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/consolidate_live.hpp"

#include <algorithm>
#include <optional>

#include "base/fail.hpp"
#include "checkpoint/consolidation.hpp"
#include "checkpoint/gathered_files.hpp"
#include "checkpoint/live_site.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kLeastByDevice = 64 << 10;  // of a range; less is quicker by the processors

void check_arguments(const Communicator& comm, const LiveState& state, const ConsolidateOptions& options,
                     const DeviceLink* link) {
  if (state.description().rank() != comm.rank())
    fail(ErrorKind::invalid_argument, "consolidate: the state is that of rank {}",
         state.description().rank());
  if (!options.source.empty() || !options.destination.empty())
    fail(ErrorKind::invalid_argument, "consolidate: a live state has no source, and goes to the path given");
  if (options.dequant) fail(ErrorKind::invalid_argument, "consolidate: a live state goes without dequant");
  if (options.resume || options.copy == CopyMode::kernel)
    fail(ErrorKind::invalid_argument, "consolidate: a live state goes without journal and copying kernel");
  if (link != nullptr && link->size() != comm.size()) {
    fail(ErrorKind::invalid_argument, "consolidate: a link of {} devices on {} ranks", link->size(),
         comm.size());
  }
}

PackedItems pack(const LiveState& state, const SavePlan& plan) {
  std::vector<ShardItem> items;
  for (const WriteItem& item : plan.items()) items.push_back(content_of(state, plan, item));
  return PackedItems(std::move(items));
}

}  // namespace

ConsolidateReport consolidate(Communicator& comm, FileSystem& files, const LiveState& state,
                              const std::string& path, const ConsolidateOptions& options,
                              DeviceLink* device_link) {
  on_all_ranks("checking the options", comm, [&] { check_arguments(comm, state, options, device_link); });
  std::optional<PackedItems> items;
  LiveSite site;
  {
    const SharedPlan plan = plan_together(comm, state.description(), {});
    on_all_ranks("pickling the objects", comm, [&] { items.emplace(pack(state, *plan.part)); });
    site = describe_live(comm, plan, *items, options.write);
  }

  if (agree(comm, device_link == nullptr ? 1 : 0) == 0) {
    site.devices = {device_link, [&](std::uint32_t, std::uint64_t byte_offset, std::uint64_t bytes) {
                      if (bytes < kLeastByDevice) return std::span<const std::byte>();
                      return items->on_device(byte_offset, bytes, *device_link);
                    }};
  }
  std::vector<GatheredFile> own = site.files;
  std::erase_if(own, [&](const GatheredFile& file) { return file.owner != comm.rank(); });
  const auto read = [&](std::uint32_t, std::uint64_t byte_offset, std::span<std::byte> into) {
    items->read(byte_offset, into);
  };
  GatheredFileSystem with_memory(files, site.directory, std::move(own), kAllElsewhere, read);
  ConsolidateOptions run_options = options;
  run_options.destination = path;
  return run_consolidation(comm, with_memory, run_options, {.live = &site});
}

}  // namespace cairn
