// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/convert.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "checkpoint/consolidation.hpp"
#include "checkpoint/resumption.hpp"
#include "formats/layout/iteration_names.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

constexpr std::array<std::string_view, 4> kTorchFiles{".pth", ".pt", ".ckpt", ".bin"};
constexpr std::array<std::string_view, 2> kNotWritten{".h5", ".hdf5"};

void check_options(const ConvertOptions& options) {
  if (options.destination.empty())
    fail(ErrorKind::invalid_argument, "no destination was given: SRC DST are needed");
  if (options.ranks < 1)
    fail(ErrorKind::invalid_argument, "laid out for {} ranks: 1 is the least", options.ranks);
}

void check_is_whole(const ConvertOptions& options) {
  if (!options.layout_file.empty()) {
    fail(ErrorKind::invalid_argument, "{}: a torch file is whole; rules for a layout are for a DCP directory",
         escape_name(options.destination));
  }
  if (options.ranks == 1 && options.dim == 0) return;
  fail(ErrorKind::invalid_argument, "{}: a layout for {} ranks is for a DCP directory, and this is none",
       escape_name(options.destination), options.ranks);
}

void check_is_not_safetensors(const ConvertOptions& options) {
  if (!options.max_shard_bytes && options.tied == TiedPolicy::keep) return;
  fail(ErrorKind::invalid_argument,
       "{}: the size of shards and tied tensors are for safetensors files, and these are none",
       escape_name(options.destination));
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

void check_is_no_torch_file(const ConvertOptions& options) {
  if (options.alignment != ConsolidateOptions().alignment) {
    fail(ErrorKind::invalid_argument, "{}: an alignment of {} is for a torch file, and this is none",
         escape_name(options.destination), options.alignment);
  }
  if (options.objects == ObjectPolicy::safe) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{}: a second file for objects is for a torch file, and this is none",
                            escape_name(options.destination)),
                "keep or drop them");
  }
  if (options.ema || !options.more_outputs.empty()) {
    fail(ErrorKind::invalid_argument, "{}: further outputs are for a torch file, and this is none",
         escape_name(options.destination));
  }
  if (options.copy == CopyMode::kernel) {
    fail(ErrorKind::invalid_argument, "{}: the kernel copies into a torch file only, and this is none",
         escape_name(options.destination));
  }
}

/// What is run, as the options ask for it.
struct Job {
  ConvertOptions options;
  RunTarget target;
};

Job write_shards(Communicator& comm, ConvertOptions options, Sources sources) {
  on_all_ranks("checking the options", comm, [&] {
    check_is_no_torch_file(options);
    check_is_not_safetensors(options);
  });
  options.destination = without_slashes(options.destination);
  const bool keeps_companion = sources == Sources::directories;  // it stays what it is
  ShardTarget shards;
  shards.ranks = options.ranks;
  shards.dim = options.dim;
  shards.layout_file = options.layout_file;
  shards.keeps_companion = keeps_companion;
  return {std::move(options), {.sources = sources, .shards = shards, .keeps_companion = keeps_companion}};
}

Job write_safetensors(Communicator& comm, const ConvertOptions& options) {
  on_all_ranks("checking the options", comm, [&] {
    check_is_no_torch_file(options);
    check_is_whole(options);
    if (options.max_shard_bytes == 0) fail(ErrorKind::invalid_argument, "shards of 0 bytes: 1 is the least");
  });
  const SafetensorsTarget target{options.max_shard_bytes, options.tied};
  return {options, {.sources = Sources::all, .safetensors = target}};
}

/// "KEY=DIRECTORY"
struct SplitPart {
  std::string key, directory;
};

std::vector<SplitPart> parse_split(const std::vector<std::string>& texts) {
  std::vector<SplitPart> parts;
  for (const std::string& text : texts) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      fail(ErrorKind::invalid_argument, "'{}': KEY=DIRECTORY expected", escape_name(text));
    SplitPart part{text.substr(0, equals), text.substr(equals + 1)};
    if (!layout::is_plain_name(part.directory))
      fail(ErrorKind::invalid_argument, "'{}': the name of a directory expected after '='",
           escape_name(text));
    for (const SplitPart& other : parts) {
      if (other.key == part.key || other.directory == part.directory)
        fail(ErrorKind::invalid_argument, "'{}': key or directory is named twice", escape_name(text));
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

// What rank 0 says: how many runs there are depends on it.
std::vector<std::string> agreed_split(Communicator& comm, const ConvertOptions& options) {
  const Bytes said = on_root("checking the options", comm, 0, [&] {
    ByteWriter out;
    for (const std::string& text : options.split) out.counted_text(text);
    return out.take();
  });
  std::vector<std::string> texts;
  for (ByteReader in(said, "split"); !in.at_end();) texts.emplace_back(in.counted_text());
  return texts;
}

// One for each directory, or one.
std::vector<Job> split_jobs(Communicator& comm, const Job& whole) {
  const auto texts = agreed_split(comm, whole.options);
  std::vector<SplitPart> parts;
  on_all_ranks("checking the options", comm, [&] {
    parts = parse_split(texts);
    if (!parts.empty() && !whole.target.shards)
      fail(ErrorKind::invalid_argument, "{}: keys are split into DCP directories, and this is none",
           escape_name(whole.options.destination));
  });
  if (parts.empty()) return {whole};
  std::vector<std::string> keys;
  for (const SplitPart& part : parts) keys.push_back(part.key);
  std::vector<Job> jobs;
  for (const SplitPart& part : parts) {
    Job& job = jobs.emplace_back(whole);
    job.options.destination += "/" + part.directory;
    job.target.shards->key = part.key;
    job.target.shards->keys = keys;
    job.target.shards->keeps_journal = parts.size() > 1;
  }
  return jobs;
}

void add(ConsolidateReport& sum, ConsolidateReport one) {
  const auto append = [](auto& to, auto& from) { std::ranges::move(from, std::back_inserter(to)); };
  append(sum.outputs, one.outputs);
  sum.read_bytes += one.read_bytes;
  sum.written_bytes += one.written_bytes;
  sum.verified_bytes += one.verified_bytes;
  sum.resumed_bytes += one.resumed_bytes;
  sum.seconds += one.seconds;
  sum.peak_rss_bytes = std::max(sum.peak_rss_bytes, one.peak_rss_bytes);
  append(sum.skipped, one.skipped);
  for (std::string& warning : one.warnings) {  // those of the source come with each
    if (std::ranges::find(sum.warnings, warning) == sum.warnings.end())
      sum.warnings.push_back(std::move(warning));
  }
}

// Those of several directories stay until all are there: a run that goes on finds the first ones complete.
void remove_journals(Communicator& comm, FileSystem& files, const std::vector<Job>& jobs) {
  if (comm.rank() != 0) return;
  for (const Job& job : jobs) remove_journal(files, job.options.destination + "/.metadata");
}

Job convert_job(Communicator& comm, FileSystem& files, const ConvertOptions& options) {
  on_all_ranks("checking the options", comm, [&] { check_options(options); });
  const ConvertTo target = agreed_target(comm, files, options);
  if (target == ConvertTo::dcp) return write_shards(comm, options, Sources::all);
  if (target == ConvertTo::safetensors) return write_safetensors(comm, options);
  on_all_ranks("checking the options", comm, [&] {
    check_is_whole(options);
    check_is_not_safetensors(options);
  });
  return {options, {.sources = Sources::all}};
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
  if (destination.ends_with(".safetensors")) return ConvertTo::safetensors;
  for (const std::string_view extension : kTorchFiles) {
    if (destination.ends_with(extension)) return ConvertTo::torch_file;
  }
  return ConvertTo::dcp;
}

ConsolidateReport convert(Communicator& comm, FileSystem& files, const ConvertOptions& options) {
  const std::vector<Job> jobs = split_jobs(comm, convert_job(comm, files, options));
  for (const Job& job : jobs) {  // what can be refused is refused before the first of several is written
    if (jobs.size() > 1) run_dry(comm, files, job.options, job.target);
  }
  ConsolidateReport report;
  for (const Job& job : jobs) {
    ConsolidateReport one = run_consolidation(comm, files, job.options, job.target);
    if (report.outputs.empty())
      report = std::move(one);
    else
      add(report, std::move(one));
  }
  if (options.resume && jobs.size() > 1) remove_journals(comm, files, jobs);
  return report;
}

DryRunReport dry_run_convert(Communicator& comm, FileSystem& files, const ConvertOptions& options) {
  DryRunReport report;
  for (const Job& job : split_jobs(comm, convert_job(comm, files, options))) {
    DryRunReport one = run_dry(comm, files, job.options, job.target);
    if (!report.outputs.empty())
      one.outputs.insert(one.outputs.begin(), report.outputs.begin(), report.outputs.end());
    report = std::move(one);
  }
  return report;
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
