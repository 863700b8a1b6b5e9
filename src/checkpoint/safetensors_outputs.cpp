// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/safetensors_outputs.hpp"

#include <algorithm>
#include <map>

#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "checkpoint/destination.hpp"
#include "checkpoint/dry_run.hpp"
#include "formats/layouts.hpp"
#include "formats/safetensors/dtype_code.hpp"
#include "formats/safetensors/files.hpp"
#include "formats/safetensors/sharding.hpp"
#include "plan/names/name_list.hpp"
#include "storage/file_cache.hpp"

namespace cairn {

using safetensors::TextPairs;

namespace {

constexpr std::string_view kReserved = "__metadata__", kFormat = "format";

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

// --- chosen -----------------------------------------------------------------------------------------------

void SafetensorsOutputs::choose(FileSystem& view, const std::string& source,
                                std::vector<OutputRequest>& requests) {
  forbidden_ = source;
  const auto present = view.status(options_.destination);
  is_directory_ = options_.destination.ends_with('/') ||
                  !options_.destination.ends_with(safetensors::kExtension) ||
                  (present && present->type == FileType::directory);
  destination_ = without_slashes(options_.destination);
  if (is_directory_) {
    check_output_directory(view, source, destination_, true);
    if (view.status(path_of(".metadata")))
      fail(ErrorKind::already_exists,
           "{}: a DCP checkpoint is there, which would be read in place of the new files",
           escape_name(destination_));
    for (const std::string_view name : {safetensors::kIndexName, safetensors::kSingleName})
      check_output(view, source, path_of(name), may_replace());
  } else {
    check_output(view, source, destination_, may_replace());
  }
  complete_requests(view, is_directory_ ? path_of(safetensors::kSingleName) : destination_, requests);
}

bool SafetensorsOutputs::may_replace() const {
  if (options_.overwrite) return true;
  const std::vector<std::string> mains =
      is_directory_ ? std::vector{path_of(safetensors::kIndexName), path_of(safetensors::kSingleName)}
                    : std::vector{destination_};
  return set_.may_be_there(mains);
}

std::string SafetensorsOutputs::path_of(std::string_view name) const {
  return fmt::format("{}{}{}", destination_, destination_.ends_with('/') ? "" : "/", name);
}

// --- planned ----------------------------------------------------------------------------------------------

void SafetensorsOutputs::plan_all(const std::vector<OutputRequest>& requests, CheckpointSource& source,
                                  std::uint64_t) {
  source_ = &source.catalog();
  const NamedEntries named(source.catalog());
  chosen_ = apply_rules(source.catalog(), named, requests[0].rules, false);
  warn_of_map(requests[0], chosen_.unused_map_names, report_.warnings);
  refuse_objects();
  refuse_dtypes();
  metadata_.emplace_back(kFormat, "pt");
  tensors_ = keep_tensors(source);
  std::vector<std::uint64_t> bytes;
  std::uint64_t all = 0;
  for (const std::uint32_t tensor : tensors_) {
    bytes.push_back(chosen_.catalog.byte_count(chosen_.catalog.tensors()[tensor]));
    all += bytes.back();
  }
  const auto split = safetensors::split(bytes, most_bytes(all));
  if (!is_directory_ && split.size() > 1) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{}: {} bytes of tensors are more than one file of {} bytes",
                            escape_name(destination_), all, target_.most_bytes.value_or(0)),
                "name a directory: it gets the shards and their index");
  }
  plan_.tensor_files = std::make_unique<TensorFilesPlan>();
  TextPairs weights;
  for (std::size_t i = 0; i < split.size(); ++i) {
    std::vector<std::uint32_t> tensors;
    for (const std::uint32_t kept : split[i]) tensors.push_back(tensors_[kept]);
    add_file(tensors, safetensors::file_name(i, split.size()), weights);
  }
  if (split.size() < 2) return;
  index_ = safetensors::encode_index(std::move(weights), {metadata_.begin() + 1, metadata_.end()}, all);
}

void SafetensorsOutputs::refuse_objects() {
  std::vector<std::string> names;
  for (const ObjectInfo& object : chosen_.catalog.objects()) names.emplace_back(chosen_.catalog.name(object));
  if (names.empty()) return;
  if (options_.objects != ObjectPolicy::drop) {
    throw Error(ErrorKind::unsupported,
                fmt::format("a safetensors file holds tensors only, and {} {} none", list_names(names),
                            names.size() == 1 ? "is" : "are"),
                "--objects drop leaves them out");
  }
  for (const std::string& name : names)
    report_.skipped.push_back(fmt::format("'{}': an object, and none are to be written", escape_name(name)));
}

void SafetensorsOutputs::refuse_dtypes() const {
  std::map<std::string, std::vector<std::string>> names;  // by what has no place
  for (const TensorInfo& tensor : chosen_.catalog.tensors()) {
    const std::string_view name = chosen_.catalog.name(tensor);
    if (name == kReserved)
      fail(ErrorKind::unsupported, "no tensor of a safetensors file can be called '{}'", name);
    const std::string dtype(info(tensor.dtype).name);
    if (!safetensors::code_of(tensor.dtype))
      names[dtype].emplace_back(name);
    else if (safetensors::values_per_element(tensor.dtype) > 1 && chosen_.catalog.shape(tensor).empty())
      names[dtype + " without a dimension"].emplace_back(name);
  }
  if (names.empty()) return;
  std::string text;
  for (const auto& [dtype, tensors] : names)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", dtype, list_names(tensors));
  throw Error(ErrorKind::unsupported, fmt::format("safetensors files have no dtype for {}", text),
              "--exclude leaves tensors out; a torch file or a DCP directory holds them");
}

// --tied alias: of tensors that are the same bytes of the source one is written.
std::vector<std::uint32_t> SafetensorsOutputs::keep_tensors(CheckpointSource& source) {
  std::vector<bool> is_alias(chosen_.catalog.tensors().size(), false);
  if (target_.tied == TiedPolicy::alias) find_aliases(source, is_alias);
  std::vector<std::uint32_t> kept;
  for (std::uint32_t i = 0; i < is_alias.size(); ++i) {
    if (!is_alias[i]) kept.push_back(i);
  }
  return kept;
}

void SafetensorsOutputs::find_aliases(CheckpointSource& source, std::vector<bool>& is_alias) {
  const Catalog& read = source.catalog();
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<std::uint32_t>> sharing;  // by stored item
  for (std::uint32_t i = 0; i < is_alias.size(); ++i) {
    const auto chunks = read.chunks(read.tensors()[chosen_.tensors[i]]);
    if (chunks.size() == 1 && chunks[0].byte_length > 0)
      sharing[{chunks[0].file, chunks[0].byte_offset}].push_back(i);
  }
  const auto name = [&](std::uint32_t i) { return chosen_.catalog.name(chosen_.catalog.tensors()[i]); };
  const auto same_view = [&](std::uint32_t a, std::uint32_t b) {
    const TensorInfo &one = read.tensors()[chosen_.tensors[a]], &other = read.tensors()[chosen_.tensors[b]];
    if (one.dtype != other.dtype ||
        chosen_.catalog.tensors()[a].dtype != chosen_.catalog.tensors()[b].dtype ||
        !std::ranges::equal(read.shape(one), read.shape(other)) || read.byte_count(one) == 0)
      return false;
    const auto place = source.locate(one, one.first_chunk), beside = source.locate(other, other.first_chunk);
    return place->first_byte == beside->first_byte && place->strides == beside->strides;
  };
  TextPairs aliases;
  for (auto& [item, tensors] : sharing) {
    std::ranges::sort(tensors, {}, name);
    for (std::size_t i = 1; i < tensors.size(); ++i) {
      const auto kept = std::ranges::find_if(
          tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(i),
          [&](std::uint32_t before) { return !is_alias[before] && same_view(before, tensors[i]); });
      if (kept == tensors.begin() + static_cast<std::ptrdiff_t>(i) || name(tensors[i]) == kFormat) continue;
      is_alias[tensors[i]] = true;
      aliases.emplace_back(name(tensors[i]), name(*kept));
    }
  }
  std::ranges::sort(aliases);
  metadata_.insert(metadata_.end(), aliases.begin(), aliases.end());
}

std::uint64_t SafetensorsOutputs::most_bytes(std::uint64_t all) const {
  if (target_.most_bytes) return *target_.most_bytes;
  return is_directory_ ? kMostShardBytes : std::max<std::uint64_t>(all, 1);
}

void SafetensorsOutputs::add_file(std::span<const std::uint32_t> tensors, const std::string& name,
                                  TextPairs& weights) {
  const Catalog& catalog = chosen_.catalog;
  std::vector<safetensors::PlacedTensor> placed;
  std::map<std::string_view, std::uint32_t> numbers;
  for (const std::uint32_t i : tensors) {
    const TensorInfo& tensor = catalog.tensors()[i];
    placed.push_back({catalog.name(tensor), tensor.dtype, catalog.shape(tensor), 0, 0});
    numbers.emplace(catalog.name(tensor), i);
    weights.emplace_back(catalog.name(tensor), name);
  }
  safetensors::place(placed);
  Output& output = outputs_.emplace_back();
  output.path = is_directory_ ? path_of(name) : destination_;
  output.header = safetensors::encode_header(placed, metadata_);
  output.data_bytes = placed.empty() ? 0 : placed.back().end;
  check_header(output, placed.size());

  safetensors::DataFile file{{}, output.header.size(), 0};
  for (const safetensors::PlacedTensor& tensor : placed) {
    if (tensor.begin == tensor.end) continue;
    RecordContent& content = plan_.tensor_files->contents.emplace_back();
    content.is_tensor = true;
    content.dtype = tensor.dtype;
    content.tensor = chosen_.tensors[numbers.at(tensor.name)];
    content.bytes = tensor.end - tensor.begin;
    ++file.records;
  }
  plan_.tensor_files->files.push_back(std::move(file));
}

void SafetensorsOutputs::check_header(const Output& output, std::size_t tensors) const {
  const std::uint64_t length = output.header.size() - safetensors::kLengthBytes;
  if (length <= safetensors::kMostHeaderBytes) return;
  throw Error(ErrorKind::unsupported,
              fmt::format("{}: the header of {} tensors would have {} bytes, and readers take {} at most",
                          escape_name(output.path), tensors, length, safetensors::kMostHeaderBytes),
              is_directory_
                  ? "a smaller --max-shard-size makes more files of fewer tensors"
                  : "name a directory and a --max-shard-size: several files have fewer tensors each");
}

// --- created ----------------------------------------------------------------------------------------------

// The index comes first in the set: it appears last.
std::vector<AtomicOutputs::Wanted> SafetensorsOutputs::wanted_files() const {
  std::vector<AtomicOutputs::Wanted> wanted;
  if (has_index()) wanted.push_back({path_of(safetensors::kIndexName), index_.size()});
  for (const Output& output : outputs_) wanted.push_back({output.path, output.bytes()});
  return wanted;
}

void SafetensorsOutputs::create(FileSystem& view, const PlannedOutputs& planned, const FileDigest& metadata,
                                const std::vector<std::string>& machines) {
  const auto wanted = wanted_files();
  for (const auto& [path, size] : wanted) check_output(view, forbidden_, path, may_replace());
  const auto free_bytes = check_room(files_, wanted, options_.overwrite || options_.resume);
  check_other_form();
  if (is_directory_ && options_.overwrite) find_old_files();
  if (dry_ != nullptr) return tell(wanted, free_bytes.back());
  make_room_for_open_files(wanted.size());  // each stays locked
  OutputSet::Job job{view, *source_, planned, metadata, machines, {}, {as_bytes(index_)}, {}};
  job.options = {{"--max-shard-size", target_.most_bytes ? std::to_string(*target_.most_bytes) : "default"},
                 {"--tied", target_.tied == TiedPolicy::alias ? "alias" : "keep"}};
  for (const Output& output : outputs_) job.texts.push_back(as_bytes(output.header));
  set_.create({wanted}, job);
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    plan_.tensor_files->files[i].path = set_[i + (has_index() ? 1 : 0)].temporary_path();
}

// One file and several have locks of their own: a job that makes the other may be under way, or have left
// what can be continued.
void SafetensorsOutputs::check_other_form() const {
  if (!is_directory_) return;
  const std::string_view other = has_index() ? safetensors::kSingleName : safetensors::kIndexName;
  AtomicOutputs::check(files_, {{path_of(other), 0}}, options_.overwrite);
}

void SafetensorsOutputs::tell(const std::vector<AtomicOutputs::Wanted>& wanted, std::uint64_t free_bytes) {
  const auto places = AtomicOutputs::check(files_, wanted, may_replace(), options_.resume);
  std::uint64_t bytes = 0;
  for (const auto& [path, size] : wanted) bytes += size;
  std::vector<std::uint32_t> entries;
  for (std::uint32_t i = 0; i < chosen_.catalog.entries().size(); ++i) {
    const Entry& entry = chosen_.catalog.entries()[i];
    if (entry.is_tensor && std::ranges::binary_search(tensors_, entry.index)) entries.push_back(i);
  }
  const std::string place = is_directory_ ? place_of(places[0]).directory : places[0];
  dry_->outputs.push_back({place, bytes, free_bytes, dry_run_entries(entries, *source_, &chosen_)});
}

// --- closed -----------------------------------------------------------------------------------------------

void SafetensorsOutputs::finish(const PlannedOutputs&, const std::vector<std::uint32_t>&) {
  if (plan_.is_complete) return;
  const auto write = [&](const std::string& path, std::string_view text) {
    const auto file = files_.open_write(path);
    file->write(0, as_bytes(text));
    if (options_.sync) file->sync();
    file->close();
  };
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    write(plan_.tensor_files->files[i].path, outputs_[i].header);
  if (has_index()) write(set_[0].temporary_path(), index_);
}

// --- published --------------------------------------------------------------------------------------------

// Before anything is replaced: what lies there of an older checkpoint.
void SafetensorsOutputs::find_old_files() {
  const auto take = [&](std::string_view name) {
    const std::string path = path_of(name);
    const auto wanted = wanted_files();
    if (std::ranges::find(wanted, path, &AtomicOutputs::Wanted::path) == wanted.end() &&
        files_.status(path, false)) {
      check_output(files_, forbidden_, path, true);  // it goes: what is read may not
      old_files_.push_back(path);
    }
  };
  take(safetensors::kSingleName);
  take(safetensors::kIndexName);
  if (!files_.status(path_of(safetensors::kIndexName))) return;
  std::vector<std::string> names;
  try {
    names = safetensors::list_files(files_, {destination_, std::string(safetensors::kIndexName)}).names;
  } catch (const Error& error) {
    report_.warnings.push_back(fmt::format("the files of the old index stay: {}", error.message()));
  }
  for (const std::string& name : names) {
    if (safetensors::is_file_name(name) && name != safetensors::kSingleName) take(name);
  }
}

void SafetensorsOutputs::drop_old_files() {
  for (const std::string& path : old_files_) {
    try {
      files_.unlink(path);
    } catch (const Error& error) {
      report_.warnings.push_back(fmt::format("of the checkpoint before: {}", error.message()));
    }
  }
}

void SafetensorsOutputs::publish() {
  set_.publish();
  set_.end_job();
  std::uint64_t bytes = 0;
  for (const auto& [path, size] : wanted_files()) {
    const auto status = files_.status(path);
    if (!status || status->size != size) {
      fail(ErrorKind::io, "{}: {} bytes found after publishing, {} expected", path, status ? status->size : 0,
           size);
    }
    bytes += size;
  }
  drop_old_files();
  report_output(bytes);
}

void SafetensorsOutputs::report_output(std::uint64_t bytes) {
  report_.outputs.push_back(
      {is_directory_ ? files_.resolve(destination_) : set_[0].final_path(), bytes, tensors_.size(), 0});
  report_.written_bytes += bytes;
}

}  // namespace cairn
