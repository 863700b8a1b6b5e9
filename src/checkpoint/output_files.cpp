// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/output_files.hpp"

#include <algorithm>

#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/keyed_hash.hpp"
#include "base/text.hpp"
#include "checkpoint/destination.hpp"
#include "checkpoint/dry_run.hpp"
#include "checkpoint/small_file.hpp"
#include "engine/kernel_copy.hpp"
#include "plan/names/name_list.hpp"

namespace cairn {

// --- planned ----------------------------------------------------------------------------------------------

void OutputFiles::choose(FileSystem& view, const std::string& source, std::vector<OutputRequest>& requests) {
  forbidden_ = source;
  const bool may_be_there = options_.overwrite || options_.resume;  // then creating the outputs decides
  const std::string file = choose_destination(view, source, options_.destination, may_be_there);
  if (!options_.overwrite && may_be_there && !set_.may_be_there({&file, 1}))
    check_output(view, source, file, false);
  complete_requests(view, file, requests);
}

void OutputFiles::plan_all(const std::vector<OutputRequest>& requests, CheckpointSource& source,
                           std::uint64_t metadata_bytes) {
  source_ = &source;
  const bool all_as_is = requests.size() == 1 && requests[0].keeps_all();
  std::optional<NamedEntries> entries;
  if (!all_as_is) entries.emplace(source.catalog());
  if (options_.ema) warn_of_gaps(find_ema_gaps(entries->all()));
  for (const OutputRequest& request : requests) {
    std::optional<OutputCatalog> chosen;
    if (!request.keeps_all()) {
      chosen = apply_rules(source.catalog(), *entries, request.rules, !options_.flat);
      warn_of_map(request, chosen->unused_map_names, report_.warnings);
    }
    plan_one(request.file, chosen ? &*chosen : nullptr, metadata_bytes);
  }
}

void OutputFiles::plan_one(const std::string& file, const OutputCatalog* chosen,
                           std::uint64_t metadata_bytes) {
  auto state = consolidate_state(*source_, chosen, options_, file, metadata_bytes);
  report_.warnings.insert(report_.warnings.end(), state.warnings.begin(), state.warnings.end());
  if (outputs_.empty()) report_.skipped = std::move(state.skipped);
  if (dry_ != nullptr) tell(file, state, chosen);
  plan_.outputs.push_back({{},
                           zip::archive_name(file),
                           options_.alignment,
                           state.main.pickle.size(),
                           std::move(state.main.storages)});
  outputs_.push_back({file, std::move(state), {}, 0});
}

void OutputFiles::tell(const std::string& file, const ConsolidatedState& state, const OutputCatalog* chosen) {
  dry_->outputs.push_back({file, 0, 0, dry_run_entries(state.main.entries, source_->catalog(), chosen)});
  if (!state.unsafe_objects) return;
  dry_->outputs.push_back({objects_path_for(file), 0, 0,
                           dry_run_entries(state.unsafe_objects->entries, source_->catalog(), chosen)});
}

void OutputFiles::warn_of_gaps(const EmaGaps& gaps) {
  const auto warn = [&](const std::vector<std::string>& names, std::string_view counterpart) {
    if (names.empty()) return;
    report_.warnings.push_back(fmt::format("no {} for {}", counterpart, list_names(names)));
  };
  warn(gaps.without_net, "'net.' counterpart");
  warn(gaps.without_ema, "'net_ema.' counterpart");
}

// --- created ----------------------------------------------------------------------------------------------

void OutputFiles::create(FileSystem& view, const PlannedOutputs& planned, const FileDigest& metadata,
                         const std::vector<std::string>& machines) {
  auto wanted = wanted_files(view, planned);
  if (dry_ != nullptr) return check(wanted);
  check_room(files_, wanted, options_.overwrite || options_.resume);
  OutputSet::Job job{view, source_->catalog(), planned, metadata, machines};
  for (const Output& output : outputs_) job.texts.emplace_back(output.state.main.pickle);
  set_.create({std::move(wanted)}, job);
  for (std::size_t i = 0; i < plan_.outputs.size(); ++i)
    plan_.outputs[i].temporary_path = set_[i].temporary_path();
}

void OutputFiles::check(const std::vector<AtomicOutputs::Wanted>& wanted) {
  const auto free_bytes = check_room(files_, wanted, options_.overwrite || options_.resume);
  std::vector<DryRunOutput*> outputs;  // as wanted
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    DryRunOutput& output = *std::ranges::find(dry_->outputs, wanted[i].path, &DryRunOutput::path);
    output.bytes = wanted[i].size;
    output.free_bytes = free_bytes[i];
    outputs.push_back(&output);
  }
  const auto places =
      AtomicOutputs::check(files_, wanted, options_.overwrite || may_be_ours(), options_.resume);
  for (std::size_t i = 0; i < places.size(); ++i) outputs[i]->path = places[i];
}

// The main output comes first in the set: it appears last.
std::vector<AtomicOutputs::Wanted> OutputFiles::wanted_files(FileSystem& view,
                                                             const PlannedOutputs& planned) {
  std::vector<AtomicOutputs::Wanted> wanted;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (i > 0) check_output(view, forbidden_, outputs_[i].file, options_.overwrite || may_be_ours());
    wanted.push_back({outputs_[i].file, planned.layout(i).file_size()});
  }
  for (Output& output : outputs_) want_objects(view, output, wanted);
  return wanted;
}

void OutputFiles::want_objects(FileSystem& view, Output& output, std::vector<AtomicOutputs::Wanted>& wanted) {
  const std::string file = objects_path_for(output.file);
  if (output.state.unsafe_objects) {
    check_output(view, forbidden_, file, options_.overwrite || may_be_ours());
    const FileState& objects = *output.state.unsafe_objects;
    output.objects_layout.emplace(zip::archive_name(file), objects.pickle.size(),
                                  record_bytes(objects.storages), options_.alignment);
    output.objects_index = wanted.size();
    wanted.push_back({file, output.objects_layout->file_size()});
  } else if (options_.objects == ObjectPolicy::safe && files_.status(file)) {
    report_.warnings.push_back(
        fmt::format("{}: left as it is; no object of this checkpoint needs it", escape_name(file)));
  }
}

// --- closed -----------------------------------------------------------------------------------------------

void OutputFiles::finish(const PlannedOutputs& planned, const std::vector<std::uint32_t>& crcs) {
  for (std::size_t i = 0; i < outputs_.size(); ++i) finish_one(i, planned, planned.crcs_of(i, crcs));
}

void OutputFiles::finish_one(std::size_t index, const PlannedOutputs& planned,
                             const std::vector<std::uint32_t>& crcs) {
  if (!plan_.is_complete) write_closing(index, planned, crcs);
  const Output& output = outputs_[index];
  report_output(index, planned.layout(index).file_size(), output.state.main);
  if (output.state.unsafe_objects) write_objects(output);
}

void OutputFiles::write_closing(std::size_t index, const PlannedOutputs& planned,
                                const std::vector<std::uint32_t>& crcs) {
  const torch_file::Layout& layout = planned.layout(index);
  const auto& pickle = outputs_[index].state.main.pickle;
  const auto file = files_.open_write(plan_.outputs[index].temporary_path);
  file->write(0, layout.head(pickle));
  for (const std::uint64_t record : records_without_back(index, planned)) {
    const ByteRange extent = layout.extent(record), payload = layout.payload(record);
    Bytes back(extent.end - payload.end);
    layout.write_back(record, crcs[record], back);
    file->write(payload.end, back);
  }
  std::uint64_t at = layout.region().end;
  layout.write_tail(pickle, crcs, [&](std::span<const std::byte> bytes) {
    file->write(at, bytes);
    at += bytes.size();
  });
  if (options_.sync) file->sync();
  file->close();
}

// Those that more than one window holds, and those whose payload the kernel copied.
std::vector<std::uint64_t> OutputFiles::records_without_back(std::size_t index,
                                                             const PlannedOutputs& planned) const {
  auto records = planned.split_records(index);
  for (std::uint64_t record = 0; by_kernel() && record < plan_.outputs[index].contents.size(); ++record) {
    if (is_for_kernel(plan_.outputs[index].contents[record])) records.push_back(record);
  }
  return records;
}

void OutputFiles::write_objects(const Output& output) {
  const auto& objects = *output.state.unsafe_objects;
  const auto size = output.objects_layout->file_size();
  report_output(output.objects_index, size, objects);
  if (plan_.is_complete) return;
  const auto read_before = source_->read_bytes();
  const auto file = files_.open_write(set_[output.objects_index].temporary_path());
  write_small_file(*file, *output.objects_layout, objects.pickle, objects.storages, *source_);
  if (options_.sync) file->sync();
  file->close();
  report_.read_bytes += source_->read_bytes() - read_before;
}

void OutputFiles::report_output(std::size_t index, std::uint64_t bytes, const FileState& state) {
  report_.outputs.push_back({set_[index].final_path(), bytes, state.tensors, state.objects});
  report_.written_bytes += bytes;
}

// --- published --------------------------------------------------------------------------------------------

void OutputFiles::publish() {
  set_.publish();
  set_.end_job();
  std::ranges::for_each(report_.outputs, [this](const OutputReport& output) { check_published(output); });
}

// Success must mean that the file is there.
void OutputFiles::check_published(const OutputReport& output) const {
  const auto status = files_.status(output.path);
  if (status && status->size == output.bytes) return;
  fail(ErrorKind::io, "{}: {} bytes found after publishing, {} expected", output.path,
       status ? status->size : 0, output.bytes);
}

}  // namespace cairn
