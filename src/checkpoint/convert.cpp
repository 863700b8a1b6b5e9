// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/convert.hpp"

#include <array>
#include <string_view>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "checkpoint/consolidation.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

constexpr std::array<std::string_view, 4> kTorchFiles{".pth", ".pt", ".ckpt", ".bin"};
constexpr std::array<std::string_view, 3> kNotWritten{".safetensors", ".h5", ".hdf5"};

void check_options(const ConvertOptions& options) {
  if (options.destination.empty()) fail(ErrorKind::invalid_argument, "no destination was given");
  if (options.ranks < 1)
    fail(ErrorKind::invalid_argument, "laid out for {} ranks: 1 is the least", options.ranks);
}

void check_is_whole(const ConvertOptions& options) {
  if (!options.layout_file.empty()) {
    fail(ErrorKind::invalid_argument, "{}: a torch file is whole; rules for a layout are for a DCP directory",
         escape_name(options.destination));
  }
  if (options.ranks == 1 && options.dim == 0) return;
  fail(ErrorKind::invalid_argument, "{}: a torch file is whole; a layout for {} ranks is for a DCP directory",
       escape_name(options.destination), options.ranks);
}

ConvertTo agreed_target(Communicator& comm, FileSystem& files, const ConvertOptions& options) {
  const Bytes found = on_root("looking at the destination", comm, 0, [&] {
    const bool is_told = options.to != ConvertTo::automatic;
    return Bytes{static_cast<std::byte>(is_told ? options.to : target_of(files, options.destination))};
  });
  return static_cast<ConvertTo>(found.at(0));
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

void check_is_for_shards(const ConvertOptions& options) {
  if (options.alignment != ConsolidateOptions().alignment) {
    fail(ErrorKind::invalid_argument, "{}: an alignment of {} is for a torch file, this is a DCP directory",
         escape_name(options.destination), options.alignment);
  }
  if (options.objects == ObjectPolicy::safe) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{}: a second file for objects is for a torch file, this is a DCP directory",
                            escape_name(options.destination)),
                "in a directory each object is an item of its own: keep or drop them");
  }
}

/// What is run, as the options ask for it.
struct Job {
  ConvertOptions options;
  RunTarget target;
};

Job write_shards(Communicator& comm, ConvertOptions options, Sources sources) {
  on_all_ranks("checking the options", comm, [&] { check_is_for_shards(options); });
  options.destination = without_slashes(options.destination);
  const ShardTarget shards{options.ranks, options.dim, options.layout_file};
  return {std::move(options), {sources, shards}};
}

Job convert_job(Communicator& comm, FileSystem& files, const ConvertOptions& options) {
  on_all_ranks("checking the options", comm, [&] { check_options(options); });
  if (agreed_target(comm, files, options) == ConvertTo::dcp)
    return write_shards(comm, options, Sources::all);
  on_all_ranks("checking the options", comm, [&] { check_is_whole(options); });
  return {options, {Sources::all, {}}};
}

Job reshard_job(Communicator& comm, const ConvertOptions& options) {
  on_all_ranks("checking the options", comm, [&] { check_options(options); });
  return write_shards(comm, options, Sources::directories);
}

}  // namespace

ConvertTo target_of(FileSystem& files, const std::string& destination) {
  const auto present = files.status(destination);
  if (destination.ends_with('/') || (present && present->type == FileType::directory)) return ConvertTo::dcp;
  for (const std::string_view extension : kNotWritten) {
    if (destination.ends_with(extension))
      fail(ErrorKind::invalid_argument, "{}: Cairn does not write files of this kind",
           escape_name(destination));
  }
  for (const std::string_view extension : kTorchFiles) {
    if (destination.ends_with(extension)) return ConvertTo::torch_file;
  }
  return ConvertTo::dcp;
}

ConsolidateReport convert(Communicator& comm, FileSystem& files, const ConvertOptions& options) {
  const Job job = convert_job(comm, files, options);
  return run_consolidation(comm, files, job.options, job.target);
}

DryRunReport dry_run_convert(Communicator& comm, FileSystem& files, const ConvertOptions& options) {
  const Job job = convert_job(comm, files, options);
  return run_dry(comm, files, job.options, job.target);
}

ConsolidateReport reshard(Communicator& comm, FileSystem& files, const ConvertOptions& options) {
  const Job job = reshard_job(comm, options);
  return run_consolidation(comm, files, job.options, job.target);
}

DryRunReport dry_run_reshard(Communicator& comm, FileSystem& files, const ConvertOptions& options) {
  const Job job = reshard_job(comm, options);
  return run_dry(comm, files, job.options, job.target);
}

}  // namespace cairn
