// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/shard_outputs.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/keyed_hash.hpp"
#include "base/text.hpp"
#include "checkpoint/destination.hpp"
#include "checkpoint/dry_run.hpp"
#include "checkpoint/output_requests.hpp"
#include "formats/dcp/item_writer.hpp"
#include "formats/dcp/metadata_encoder.hpp"
#include "formats/dcp/shards_layout.hpp"
#include "formats/dcp/source.hpp"
#include "formats/layout/companions.hpp"
#include "formats/layouts.hpp"
#include "formats/merged/merged_catalog.hpp"
#include "formats/safetensors/sharding.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kCopyBytes = 1 << 20;

std::string metadata_path(const std::string& directory) {
  return directory + "/" + std::string(dcp::kMetadataName);
}

// A directory with .metadata is read as a DCP one.
void refuse_to_hide(FileSystem& view, const std::string& directory) {
  for (const std::string_view name : {safetensors::kIndexName, safetensors::kSingleName}) {
    if (view.status(fmt::format("{}/{}", directory, name)))
      fail(ErrorKind::already_exists,
           "{}: a safetensors checkpoint is there ({}), in place of which the new one would be read",
           escape_name(directory), name);
  }
}

// None of a checkpoint that nobody can read.
std::vector<std::string> files_of_checkpoint(FileSystem& files, const std::string& directory) {
  try {
    FaultList faults;
    const auto metadata = dcp::decode_metadata_file(files, directory, faults);
    return {metadata.catalog.files().begin(), metadata.catalog.files().end()};
  } catch (const Error&) {
    return {};
  }
}

// The number of the shards that the journal tells of. One that cannot be read is refused later, under a lock.
std::optional<std::uint32_t> index_before(FileSystem& files, const std::string& journal) {
  try {
    const auto before = read_journal(files, journal);
    if (!before) return std::nullopt;
    for (const auto& output : before->job.outputs) {
      if (const auto numbers = dcp::shard_numbers(place_of(output.path).name)) return numbers->index;
    }
  } catch (const Error&) {
  }
  return std::nullopt;
}

}  // namespace

// --- planned ----------------------------------------------------------------------------------------------

void ShardOutputs::choose(FileSystem& view, const std::string& source, std::vector<OutputRequest>& requests) {
  check_output_directory(view, source, options_.destination, may_replace());
  refuse_to_hide(view, options_.destination);
  complete_requests(view, metadata_path(options_.destination), requests);
  if (target_.keeps_companion) {
    source_ = source;
    companions_ = layout::companion_files(layout::Folder(view, source));
  }
  if (target_.layout_file.empty()) return;
  layout_rules_ = LayoutRules::parse(read_text(view, target_.layout_file), target_.layout_file);
}

void ShardOutputs::plan_all(const std::vector<OutputRequest>& requests, CheckpointSource& source,
                            std::uint64_t) {
  catalog_ = &source.catalog();
  const NamedEntries named(source.catalog());
  chosen_ = apply_rules(source.catalog(), named, requests[0].rules, !options_.flat);
  warn_of_map(requests[0], chosen_.unused_map_names, report_.warnings);
  if (!target_.keys.empty()) take_key();
  entries_ = keep_entries();
  if (layout_rules_) require_use_of_rules();
  warn_of_dim();
  read_objects(source);
  const std::vector<RankState> by_rank = states();
  place_items(by_rank, plan_save(by_rank));
  make_catalog(find_place());
}

bool ShardOutputs::is_job_there() const { return has_journal(files_, metadata_path(options_.destination)); }

dcp::DirectoryOutput::Place ShardOutputs::find_place() const {
  auto place = dcp::DirectoryOutput::check(files_, options_.destination, may_replace(), discards_leftovers(),
                                           companions_);
  if (!options_.resume) return place;
  const auto before = index_before(files_, journal_path_for(metadata_path(place.directory)));
  place.first_index = before.value_or(place.first_index);
  return place;
}

void ShardOutputs::tell(std::uint64_t free_bytes) {
  const std::uint64_t metadata_bytes = write_metadata([](std::uint64_t, std::span<const std::byte>) {});
  dry_->outputs.push_back({plan_.shards->directory, shards_bytes() + metadata_bytes, free_bytes,
                           dry_run_entries(entries_, *catalog_, &chosen_)});
}

// What lies under the key, without it.
void ShardOutputs::take_key() {
  const OutputCatalog all = std::exchange(chosen_, {});
  MergedCatalog merged;
  const std::uint32_t part = merged.add_part(all.catalog);
  for (const Entry& entry : all.catalog.entries()) {
    const std::string_view key = MergedCatalog::first_key(all.catalog, entry);
    if (std::ranges::find(target_.keys, key) == target_.keys.end())
      fail(ErrorKind::mismatch, "'{}': no directory is named for the key '{}'",
           escape_name(all.catalog.name(entry)), escape_name(key));
    if (key != target_.key) continue;
    if (all.catalog.path(entry).size() < 2)
      fail(ErrorKind::mismatch, "split: '{}' holds one value: a directory is for a dict", escape_name(key));
    merged.add(part, entry, {});
  }
  MergedCatalog::Made made = merged.take();
  if (made.catalog.entries().empty())
    fail(ErrorKind::not_found, "there is no key '{}' to make a directory of", escape_name(target_.key));
  chosen_.catalog = std::move(made.catalog);
  for (const auto& [from, index] : made.tensors) chosen_.tensors.push_back(all.tensors[index]);
  for (const auto& [from, index] : made.objects) chosen_.objects.push_back(all.objects[index]);
}

std::vector<std::uint32_t> ShardOutputs::keep_entries() {
  std::vector<std::uint32_t> kept;
  for (std::uint32_t i = 0; i < chosen_.catalog.entries().size(); ++i) {
    const Entry& entry = chosen_.catalog.entries()[i];
    if (entry.is_tensor || options_.objects != ObjectPolicy::drop)
      kept.push_back(i);
    else
      report_.skipped.push_back(fmt::format("'{}': an object, and none are to be written",
                                            escape_name(chosen_.catalog.name(entry))));
  }
  return kept;
}

void ShardOutputs::read_objects(CheckpointSource& source) {
  pickle::Arena arena;
  objects_.resize(chosen_.catalog.objects().size());
  for (const std::uint32_t index : entries_) {
    const Entry& entry = chosen_.catalog.entries()[index];
    if (entry.is_tensor) continue;
    const ObjectInfo& object = source.catalog().objects()[chosen_.objects[entry.index]];
    const pickle::Value value = source.read_object(arena, object);
    const auto find_storage = [&](std::uint32_t, pickle::Value id) {
      return source.find_storage(arena, id, object);
    };
    objects_[entry.index] =
        torch_file::pickle_object(chosen_.catalog, arena, entry.index, value, find_storage);
  }
}

std::vector<RankState> ShardOutputs::states() const {
  const Catalog& catalog = chosen_.catalog;
  std::vector<RankState> states;
  for (int rank = 0; rank < target_.ranks; ++rank) states.emplace_back(rank);
  for (const std::uint32_t index : entries_) {
    const Entry& entry = catalog.entries()[index];
    if (!entry.is_tensor) {
      const std::uint64_t bytes = dcp::object_item_bytes(objects_[entry.index]);
      for (RankState& state : states) state.add_object(catalog.name(entry), bytes);
      continue;
    }
    const TensorInfo& tensor = catalog.tensors()[entry.index];
    const TensorLayout layout = layout_of(tensor);
    for (RankState& state : states) state.add_tensor(catalog.name(entry), tensor.dtype, layout);
  }
  return states;
}

TensorLayout ShardOutputs::layout_of(const TensorInfo& tensor) const {
  const Catalog& catalog = chosen_.catalog;
  const auto sizes = catalog.shape(tensor);
  const TensorLayout::Shape shape(sizes.begin(), sizes.end());
  const auto dim = layout_rules_ ? layout_rules_->dim_of(catalog.name(tensor), target_.dim) : target_.dim;
  if (!dim || *dim >= shape.size()) return TensorLayout::replicated(shape, target_.ranks);
  return TensorLayout::sharded(shape, *dim, target_.ranks);
}

void ShardOutputs::require_use_of_rules() const {
  std::vector<std::string_view> names;
  for (const TensorInfo& tensor : chosen_.catalog.tensors()) names.push_back(chosen_.catalog.name(tensor));
  layout_rules_->require_use(names);
}

void ShardOutputs::warn_of_dim() {
  const Catalog& catalog = chosen_.catalog;
  const auto has_dim = [&](const TensorInfo& tensor) { return catalog.shape(tensor).size() > target_.dim; };
  if (target_.dim == 0 || std::ranges::any_of(catalog.tensors(), has_dim)) return;
  report_.warnings.push_back(fmt::format("no tensor has a dimension {} to be cut along", target_.dim));
}

// Places every item in its rank's file.
void ShardOutputs::place_items(const std::vector<RankState>& states, const GlobalSavePlan& plan) {
  const Catalog& catalog = chosen_.catalog;
  dcp::TensorItems tensor_items;
  shard_bytes_.assign(states.size(), 0);
  for (std::uint32_t rank = 0; rank < states.size(); ++rank) {
    for (const WriteItem& planned : plan.parts[rank].items()) {
      const std::uint32_t index = entries_[planned.entry];
      const Entry& entry = catalog.entries()[index];
      Item item{rank, index, {}, 0, 0};
      if (entry.is_tensor) {
        const BoxView box = plan.parts[rank].box(states[rank], planned);
        item.box = {{box.offsets.begin(), box.offsets.end()}, {box.sizes.begin(), box.sizes.end()}};
        item.byte_length = tensor_items.of(catalog.tensors()[entry.index].dtype, box.sizes).byte_length();
      } else {
        item.byte_length = dcp::object_item_bytes(objects_[entry.index]);
      }
      std::uint64_t& bytes = shard_bytes_[rank];
      item.byte_offset = (bytes + dcp::kItemAlignment - 1) / dcp::kItemAlignment * dcp::kItemAlignment;
      bytes = item.byte_offset + item.byte_length;
      items_.push_back(std::move(item));
    }
  }
}

std::uint64_t ShardOutputs::shards_bytes() const {
  std::uint64_t bytes = 0;
  for (const std::uint64_t shard : shard_bytes_) bytes += shard;
  return bytes;
}

// Entries in the order of the source, each with its items in the order of ranks.
void ShardOutputs::make_catalog(const dcp::DirectoryOutput::Place& place) {
  auto shards = std::make_unique<ShardPlan>();
  shards->directory = place.directory;
  first_index_ = place.first_index;
  Catalog& made = shards->catalog;
  for (StringId id = 0; id < chosen_.catalog.string_count(); ++id) made.add_string(chosen_.catalog.text(id));
  std::vector<std::uint32_t> file_of(shard_bytes_.size(), kNoFile);
  for (std::size_t rank = 0; rank < shard_bytes_.size(); ++rank) {
    if (shard_bytes_[rank] > 0)
      file_of[rank] = made.add_file(dcp::shard_name(static_cast<int>(rank), place.first_index));
  }
  std::ranges::stable_sort(items_, {}, &Item::entry);
  for (auto at = items_.begin(); at != items_.end();) {
    const auto end =
        std::ranges::find_if(at, items_.end(), [&](const Item& item) { return item.entry != at->entry; });
    add_entry({at, end}, file_of, *shards);
    at = end;
  }
  plan_.shards = std::move(shards);
}

void ShardOutputs::add_entry(std::span<const Item> items, std::span<const std::uint32_t> file_of,
                             ShardPlan& shards) {
  const Catalog& catalog = chosen_.catalog;
  const Entry& entry = catalog.entries()[items.front().entry];
  if (entry.is_tensor) {
    const TensorInfo& tensor = catalog.tensors()[entry.index];
    shards.catalog.add_tensor(tensor.name, tensor.dtype, catalog.shape(tensor));
    shards.tensors.push_back(chosen_.tensors[entry.index]);
    for (const Item& item : items)
      shards.catalog.add_chunk(item.box, file_of[item.rank], item.byte_offset, item.byte_length);
  } else {
    const Item& item = items.front();
    shards.catalog.add_object(catalog.objects()[entry.index].name, file_of[item.rank], item.byte_offset,
                              item.byte_length);
    shards.objects.push_back(std::move(objects_[entry.index]));
  }
  if (entry.has_path && !options_.flat) shards.catalog.set_path(catalog.path(entry));
}

// --- written ----------------------------------------------------------------------------------------------

void ShardOutputs::create(FileSystem& view, const PlannedOutputs& planned, const FileDigest& metadata,
                          const std::vector<std::string>& machines) {
  OutputSet::Files all = wanted_files(planned);
  const auto free_bytes = check_room(files_, all.wanted, true, all.named);
  if (dry_ != nullptr) return tell(free_bytes.front());
  OutputSet::Job job{view, *catalog_, planned, metadata, machines};
  job.options = job_options();
  const std::string id = save_id();  // of all that the metadata says
  job.texts = {as_bytes(id)};
  job.copied = companions_;
  set_.create(std::move(all), job);
  refuse_shared_shards();
  const std::string& directory = plan_.shards->directory;
  dcp::drop_orphaned_manifest(files_, directory, options_.overwrite);  // nobody is saving now
  replaced_ = dcp::ReplacedFiles(files_, directory, first_index_, options_.overwrite, companions_);
}

// Of a job that goes on: the names were free when it began, but another program may have saved under them
// since, into the same files.
void ShardOutputs::refuse_shared_shards() const {
  const std::string& directory = plan_.shards->directory;
  if (set_[0].is_shown() || !files_.status(metadata_path(directory))) return;
  const auto mine = plan_.shards->catalog.files();
  for (const std::string& name : files_of_checkpoint(files_, directory)) {
    if (std::ranges::find(mine, name) == mine.end()) continue;
    throw Error(ErrorKind::mismatch,
                fmt::format("{}: a checkpoint that was saved since this job began has its file {}",
                            escape_name(metadata_path(directory)), escape_name(name)),
                "write to another directory; --overwrite without --resume replaces that checkpoint");
  }
}

OutputSet::Files ShardOutputs::wanted_files(const PlannedOutputs& planned) const {
  const std::string& directory = plan_.shards->directory;
  OutputSet::Files all;
  all.wanted.push_back(
      {metadata_path(directory), write_metadata([](std::uint64_t, std::span<const std::byte>) {})});
  for (const std::string& name : companions_)
    all.wanted.push_back({directory + "/" + name, files_.open_read(source_ + "/" + name)->size()});
  for (const auto& [name, range] : planned.shards().shards())
    all.named.push_back({directory + "/" + name, range.size()});
  all.discard_leftovers = discards_leftovers();
  return all;
}

std::vector<std::pair<std::string, std::string>> ShardOutputs::job_options() const {
  return {{"DST", options_.destination},  // which the metadata says as it is given
          {"--ranks", std::to_string(target_.ranks)},
          {"--dim", std::to_string(target_.dim)},
          {"--layout", target_.layout_file},
          {"--split", target_.key}};
}

void ShardOutputs::finish(const PlannedOutputs& planned, const std::vector<std::uint32_t>& all) {
  if (plan_.is_complete) return;
  const dcp::ShardsLayout& layout = planned.shards();
  const auto crcs = planned.crcs_of(0, all);
  const auto file = planned.joined(files_, options_.visibility_timeout_s, options_.sync);
  for (const std::uint64_t record : planned.split_records(0)) {
    const ByteRange extent = layout.extent(record), payload = layout.payload(record);
    Bytes back(extent.end - payload.end);
    layout.write_back(record, crcs[record], back);
    file->write(payload.end, back);
  }
  layout.write_object_tails(
      crcs, [&](std::uint64_t at, std::span<const std::byte> bytes) { file->write(at, bytes); });
  if (options_.sync) file->sync();
  file->close();
  const auto metadata = files_.open_write(set_[0].temporary_path());
  write_metadata([&](std::uint64_t at, std::span<const std::byte> piece) { metadata->write(at, piece); });
  metadata->close();
  for (std::size_t i = 0; i < companions_.size(); ++i) {
    const auto beside = files_.open_write(set_[i + 1].temporary_path());
    copy_file(source_ + "/" + companions_[i], *beside);
    beside->close();
  }
}

// --- published --------------------------------------------------------------------------------------------

void ShardOutputs::publish() {
  const Catalog& catalog = plan_.shards->catalog;
  const std::string& directory = plan_.shards->directory;
  if (options_.sync)
    files_.sync_directory(directory);  // the names of the shards, before anything speaks of them
  std::uint64_t beside = 0;
  for (std::size_t i = 0; i < companions_.size(); ++i) beside += set_[i + 1].status().size;
  const std::uint64_t bytes = set_[0].status().size + shards_bytes();
  set_.publish();
  replaced_.remove(files_, report_.warnings);
  if (!target_.keeps_journal) set_.end_job();
  report_.outputs.push_back({directory, bytes, catalog.tensors().size(), catalog.objects().size()});
  report_.written_bytes += bytes + beside;
}

std::uint64_t ShardOutputs::write_metadata(
    const std::function<void(std::uint64_t, std::span<const std::byte>)>& sink) const {
  std::uint64_t bytes = 0;
  dcp::encode_metadata(plan_.shards->catalog, {options_.destination, save_id()}, {},
                       [&](std::span<const std::byte> piece) {
                         sink(bytes, piece);
                         bytes += piece.size();
                       });
  return bytes;
}

void ShardOutputs::copy_file(const std::string& from, File& to) const {
  const auto file = files_.open_read(from);
  Bytes buffer(std::min(file->size(), kCopyBytes));
  for (std::uint64_t at = 0; at < file->size(); at += kCopyBytes) {
    const auto piece = std::span(buffer).first(std::min(file->size() - at, kCopyBytes));
    file->read(at, piece);
    to.write(at, piece);
  }
}

// A UUID that the same result always gets: a hash of what else the metadata says.
std::string ShardOutputs::save_id() const {
  std::uint64_t high = 0, low = 1;
  dcp::encode_metadata(plan_.shards->catalog, {options_.destination, {}}, {},
                       [&](std::span<const std::byte> piece) {
                         high = stable_hash(piece, high);
                         low = stable_hash(piece, low);
                       });
  return fmt::format("{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xffff, high & 0xfff,
                     0x8000 | (low >> 48 & 0x3fff), low & 0xffffffffffff);
}

}  // namespace cairn
