// SPDX-License-Identifier: BSD-3-Clause
#include "formats/safetensors/files.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/byte_writer.hpp"
#include "base/checked.hpp"
#include "base/fail.hpp"
#include "base/keyed_hash.hpp"
#include "base/text.hpp"
#include "formats/dcp/copy_budget.hpp"
#include "formats/dcp/storage_rows.hpp"
#include "formats/safetensors/dtype_code.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/safetensors/json_events.hpp"
#include "plan/chunk_grid.hpp"

namespace cairn::safetensors {
namespace {

constexpr std::string_view kShardingInfo = "DCP_SHARDING_INFO", kFormat = "format";
constexpr std::size_t kMostNamed = 5;

// --- the index --------------------------------------------------------------------------------------------

// weight_map: pairs of tensor and file; the rest is passed over.
class IndexEvents final : public JsonEvents {
 public:
  void key(std::size_t depth, std::string& text) override {
    if (depth == 1) {
      in_map_ = text == "weight_map";
      if (in_map_ && std::exchange(has_map, true)) fail_corrupt("'weight_map' twice");
    } else if (depth == 2 && in_map_) {
      weights.emplace_back(std::move(text), std::string());
    }
  }
  void string(std::size_t depth, std::string& text) override {
    if (in_map_ && depth == 2)
      weights.back().second = std::move(text);
    else
      pass(depth);
  }
  void number(std::size_t depth, std::uint64_t) override { pass(depth); }
  void other(std::size_t depth, std::string_view) override { pass(depth); }
  void open(std::size_t depth, bool is_object) override {
    if (depth == 0 ? !is_object : in_map_ && (depth > 1 || !is_object)) pass(depth);
  }
  void close(std::size_t) override {}

  TextPairs weights;
  bool has_map = false;

 private:
  void pass(std::size_t depth) const {
    if (depth == 0 || in_map_) fail_corrupt("no names of files under 'weight_map'");
  }

  bool in_map_ = false;
};

struct Index {
  TextPairs weights;  ///< sorted
  std::uint64_t bytes = 0;
};

Index parse_index(const Bytes& text) {
  IndexEvents events;
  read_json(text, events);
  if (!events.has_map) fail_corrupt("no 'weight_map'");
  if (events.weights.empty()) fail_corrupt("'weight_map' names no tensor");
  std::ranges::sort(events.weights);
  const auto twice = std::ranges::adjacent_find(events.weights, {}, &TextPairs::value_type::first);
  if (twice != events.weights.end()) fail_corrupt("'{}' comes twice", escape_name(twice->first));
  for (const auto& [name, file] : events.weights) {
    if (!dcp::is_plain_relative_path(file))
      fail_corrupt("'{}' is to lie in '{}', which is no plain name in the directory", escape_name(name),
                   escape_name(file));
  }
  return {std::move(events.weights), text.size()};
}

Index read_index(FileSystem& files, const Site& site) {
  return with_context([&] { return fmt::format("the index in {} at byte 0", escape_name(site.name)); },
                      [&] {
                        const auto file = files.open_read(site.directory + "/" + site.name);
                        Bytes text(file->size());
                        file->read(0, text);
                        return parse_index(text);
                      });
}

std::vector<std::string> files_of(const Index& index) {
  std::vector<std::string> names;
  for (const auto& [name, file] : index.weights) names.push_back(file);
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

std::vector<std::string> box_shards(FileSystem& files, const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& name : files.list(directory)) {
    if (is_box_shard(name)) names.push_back(name);
  }
  return names;
}

// --- the offsets of boxes ---------------------------------------------------------------------------------

// {"name": {"saved_offsets": [0, 4]}, …}
class OffsetEvents final : public JsonEvents {
 public:
  void key(std::size_t depth, std::string& text) override {
    if (depth == 1) {
      if (!offsets.try_emplace(text).second) fail_corrupt("'{}' comes twice", escape_name(text));
      current_ = &offsets.find(text)->second;
    }
    is_offsets_ = depth == 2 && text == "saved_offsets";
  }
  void string(std::size_t depth, std::string&) override { check(depth); }
  void number(std::size_t depth, std::uint64_t value) override {
    if (!is_offsets_ || depth != 3) return check(depth);
    if (value > static_cast<std::uint64_t>(INT64_MAX)) fail_corrupt("an offset of {}", value);
    current_->push_back(static_cast<std::int64_t>(value));
  }
  void other(std::size_t depth, std::string_view) override { check(depth); }
  void open(std::size_t depth, bool is_object) override {
    if (is_object != (depth < 2)) check(depth);
  }
  void close(std::size_t) override {}

  std::unordered_map<std::string, std::vector<std::int64_t>, KeyedHash> offsets;

 private:
  void check(std::size_t depth) const {
    if (depth < 2 || is_offsets_) fail_corrupt("no list of offsets");
  }

  std::vector<std::int64_t>* current_ = nullptr;
  bool is_offsets_ = false;
};

using Offsets = std::unordered_map<std::string, std::vector<std::int64_t>, KeyedHash>;

Offsets offsets_in(const Header& header, const std::string& file) {
  const auto info = std::ranges::find(header.metadata, kShardingInfo, &TextPairs::value_type::first);
  if (info == header.metadata.end()) return {};
  return with_context(
      [&] { return fmt::format("{} in {} at byte {}", kShardingInfo, escape_name(file), kLengthBytes); },
      [&] {
        OffsetEvents events;
        read_json(as_bytes(info->second), events);
        return std::move(events.offsets);
      });
}

// --- headers as a catalogue -------------------------------------------------------------------------------

class NamesOfTensors {
 public:
  explicit NamesOfTensors(const Catalog& catalog) : catalog_(catalog), sorted_(catalog.tensors().size()) {
    std::iota(sorted_.begin(), sorted_.end(), std::uint32_t{0});
    std::ranges::sort(sorted_, {}, [this](std::uint32_t tensor) { return name(tensor); });
  }

  std::optional<std::uint32_t> find(std::string_view wanted) const {
    const auto found =
        std::ranges::lower_bound(sorted_, wanted, {}, [this](std::uint32_t tensor) { return name(tensor); });
    if (found == sorted_.end() || name(*found) != wanted) return std::nullopt;
    return *found;
  }

 private:
  std::string_view name(std::uint32_t tensor) const { return catalog_.name(catalog_.tensors()[tensor]); }

  const Catalog& catalog_;
  std::vector<std::uint32_t> sorted_;
};

/// A tensor, or a box of one, in a file.
struct Piece {
  std::uint32_t file;
  std::uint64_t entry;  // of its header
};

class Reading {
 public:
  Reading(FileSystem& files, const Site& site, FaultList& faults)
      : files_(files), site_(site), faults_(faults) {}

  Contents run() {
    FileList list;
    if (site_.has_index()) {
      index_ = read_index(files_, site_);
      list = {files_of(*index_), index_->bytes};
    } else {
      list = list_files(files_, site_);
    }
    contents_.metadata_bytes = list.index_bytes;
    for (const std::string& name : list.names) read_file(name);
    if (site_.is_boxed) {
      add_boxed();
    } else {
      find_twins();
      for (std::uint32_t file = 0; file < headers_.size(); ++file) add_file(file);
      if (index_) check_index();
      add_aliases();
    }
    return std::move(contents_);
  }

 private:
  void read_file(const std::string& name) {
    contents_.catalog.add_file(name);
    contents_.file_sizes.push_back(0);
    headers_.emplace_back();
    const std::string path = site_.directory + "/" + name;
    const auto status = files_.status(path);
    if (!status || status->type != FileType::regular) {
      return faults_.add(
          {FaultKind::missing_file,
           {},
           name,
           0,
           fmt::format("{}: the file is {}", escape_name(path), status ? "no regular file" : "missing")});
    }
    contents_.file_sizes.back() = status->size;
    const auto file = files_.open_read(path);
    try {
      headers_.back() = read_header(*file, name, faults_);
      contents_.metadata_bytes += headers_.back().bytes;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::corrupt) throw;
      faults_.add({FaultKind::header, {}, name, 0, error.message()});
    }
  }

  const std::string& file_name(std::uint32_t file) const { return contents_.catalog.files()[file]; }
  std::string_view name(const Piece& piece) const {
    return headers_[piece.file].name(headers_[piece.file].entries[piece.entry]);
  }

  void add_fault(FaultKind kind, std::string_view name, std::uint32_t file, std::uint64_t at,
                 std::string_view what) {
    if (faults_.full()) return faults_.add_unlisted(1);
    faults_.add({kind, std::string(name), file_name(file), at,
                 fmt::format("'{}' in {} at byte {}: {}", escape_name(name), escape_name(file_name(file)), at,
                             what)});
  }

  // --- whole tensors
  std::vector<Piece> all_pieces() const {
    std::vector<Piece> pieces;
    for (std::uint32_t file = 0; file < headers_.size(); ++file) {
      for (std::uint64_t i = 0; i < headers_[file].entries.size(); ++i) pieces.push_back({file, i});
    }
    return pieces;
  }

  void find_twins() {
    if (headers_.size() < 2) return;
    std::vector<Piece> pieces = all_pieces();
    std::ranges::stable_sort(pieces, {}, [&](const Piece& piece) { return name(piece); });
    for (std::size_t i = 1; i < pieces.size(); ++i) {
      if (name(pieces[i]) != name(pieces[i - 1])) continue;
      add_fault(
          FaultKind::overlap, name(pieces[i]), pieces[i].file, kLengthBytes,
          fmt::format("{} holds a tensor of this name too", escape_name(file_name(pieces[i - 1].file))));
    }
  }

  void add_file(std::uint32_t file) {
    const Header& header = headers_[file];
    contents_.catalog.reserve_entries(header.entries.size());
    std::vector<std::int64_t> origin;
    for (const HeaderEntry& entry : header.entries) {
      if (index_ && !is_named(header.name(entry), file)) continue;
      const auto shape = header.shape(entry);
      origin.assign(shape.size(), 0);
      Catalog& catalog = contents_.catalog;
      catalog.add_tensor(catalog.add_string(header.name(entry)), entry.dtype, shape);
      catalog.add_chunk({origin, shape}, file, header.bytes + entry.begin, entry.end - entry.begin);
    }
  }

  bool is_named(std::string_view tensor, std::uint32_t file) {
    const auto found = std::ranges::lower_bound(index_->weights, tensor, {}, &TextPairs::value_type::first);
    if (found != index_->weights.end() && found->first == tensor && found->second == file_name(file))
      return true;
    if (++left_out_ <= kMostNamed)
      left_out_names_ += fmt::format("{}'{}'", left_out_ == 1 ? "" : ", ", escape_name(tensor));
    return false;
  }

  void check_index() {
    std::vector<std::string_view> there;
    const Catalog& catalog = contents_.catalog;
    for (const TensorInfo& tensor : catalog.tensors()) there.push_back(catalog.name(tensor));
    std::ranges::sort(there);
    for (const auto& [tensor, file] : index_->weights) {
      if (std::ranges::binary_search(there, std::string_view(tensor))) continue;
      const auto number = std::ranges::find(catalog.files(), file) - catalog.files().begin();
      if (headers_[static_cast<std::size_t>(number)].bytes == 0) continue;  // reported
      if (is_faulty(tensor)) continue;
      add_fault(FaultKind::storage_data, tensor, static_cast<std::uint32_t>(number), kLengthBytes,
                fmt::format("{} says that it lies in this file, which has no such tensor",
                            escape_name(site_.name)));
    }
    if (left_out_ > 0)
      contents_.notes.push_back(
          fmt::format("{} names no {}{}: left out", escape_name(site_.name), left_out_names_,
                      left_out_ > kMostNamed ? fmt::format(" and {} more", left_out_ - kMostNamed) : ""));
  }

  // --- other names of tensors
  struct Alias {
    std::string name;
    std::uint32_t tensor;
  };

  void add_aliases() {
    Catalog& catalog = contents_.catalog;
    dcp::CopyBudget budget(contents_.metadata_bytes, "other names in __metadata__");
    for (const Alias& alias : find_aliases()) {
      const TensorInfo tensor = catalog.tensors()[alias.tensor];
      budget.charge(catalog.shape(tensor).size());
      const StoredItem bytes = catalog.chunks(tensor).front();
      const std::vector<std::int64_t> shape(catalog.shape(tensor).begin(), catalog.shape(tensor).end());
      const std::vector<std::int64_t> origin(shape.size(), 0);
      catalog.add_tensor(catalog.add_string(alias.name), tensor.dtype, shape);
      catalog.add_chunk({origin, shape}, bytes.file, bytes.byte_offset, bytes.byte_length);
    }
  }

  std::vector<Alias> find_aliases() {
    TextPairs said;
    for (const Header& header : headers_)
      said.insert(said.end(), header.metadata.begin(), header.metadata.end());
    std::erase_if(said, [](const auto& pair) { return pair.first == kFormat; });
    if (said.empty()) return {};
    std::ranges::sort(said);
    const auto again = std::ranges::unique(said);  // each shard says all
    said.erase(again.begin(), again.end());
    const NamesOfTensors names(contents_.catalog);
    std::vector<Alias> aliases;
    for (auto& [alias, kept] : said) {
      const auto tensor = names.find(kept);
      if (!tensor || names.find(alias)) continue;
      if (aliases.empty() || aliases.back().name != alias)
        aliases.push_back({std::move(alias), *tensor});
      else
        add_fault(FaultKind::storage_data, aliases.back().name, 0, kLengthBytes,
                  "__metadata__ says that it is another name of two tensors");
    }
    return aliases;
  }

  bool is_faulty(std::string_view tensor) const {
    return std::ranges::any_of(faults_.faults(), [&](const Fault& fault) { return fault.name == tensor; });
  }

  // --- boxes
  void add_boxed() {
    std::vector<Offsets> offsets;
    for (std::uint32_t file = 0; file < headers_.size(); ++file)
      offsets.push_back(offsets_in(headers_[file], file_name(file)));
    std::unordered_map<std::string_view, std::size_t, KeyedHash> known;
    std::vector<std::vector<Piece>> tensors;  // in the order of their first pieces
    for (const Piece& piece : all_pieces()) {
      const auto [at, is_new] = known.try_emplace(name(piece), tensors.size());
      if (is_new) tensors.emplace_back();
      tensors[at->second].push_back(piece);
    }
    for (const auto& pieces : tensors) add_tensor(pieces, offsets);
  }

  void add_tensor(std::span<const Piece> pieces, const std::vector<Offsets>& offsets) {
    const HeaderEntry& first = entry(pieces.front());
    std::vector<Box> boxes;
    std::vector<std::int64_t> shape(first.ndim, 0);
    for (const Piece& piece : pieces) {
      const auto sizes = headers_[piece.file].shape(entry(piece));
      Box box{offsets_of(piece, offsets), {sizes.begin(), sizes.end()}};
      if (entry(piece).dtype != first.dtype || sizes.size() != first.ndim ||
          box.offsets.size() != first.ndim) {
        return add_fault(FaultKind::dtype, name(piece), piece.file, kLengthBytes,
                         "its boxes differ in dtype or number of dimensions");
      }
      for (std::size_t d = 0; d < shape.size(); ++d)
        shape[d] = std::max(shape[d], checked_add(box.offsets[d], box.sizes[d], "the size of a tensor"));
      boxes.push_back(std::move(box));
    }
    check_tiling(pieces.front(), shape, boxes);
    Catalog& catalog = contents_.catalog;
    catalog.add_tensor(catalog.add_string(name(pieces.front())), first.dtype, shape);
    for (std::size_t i = 0; i < pieces.size(); ++i)
      catalog.add_chunk(boxes[i], pieces[i].file, headers_[pieces[i].file].bytes + entry(pieces[i]).begin,
                        entry(pieces[i]).end - entry(pieces[i]).begin);
  }

  const HeaderEntry& entry(const Piece& piece) const { return headers_[piece.file].entries[piece.entry]; }

  std::vector<std::int64_t> offsets_of(const Piece& piece, const std::vector<Offsets>& offsets) const {
    const auto found = offsets[piece.file].find(std::string(name(piece)));
    if (found == offsets[piece.file].end()) return std::vector<std::int64_t>(entry(piece).ndim, 0);
    auto values = found->second;
    if (!values.empty() && values_per_element(entry(piece).dtype) > 1)
      values.back() /= values_per_element(entry(piece).dtype);
    return values;
  }

  void check_tiling(const Piece& first, std::span<const std::int64_t> shape, const std::vector<Box>& boxes) {
    const auto box_at = [&](std::size_t i) { return BoxView(boxes[i]); };
    const auto fault = find_tiling_fault(shape, boxes.size(), box_at);
    if (!fault) return;
    add_fault(fault->overlap ? FaultKind::overlap : FaultKind::hole, name(first), first.file, kLengthBytes,
              fmt::format("{} of its elements {} (global size {})", fault->overlap ? "one" : "some",
                          fault->overlap ? "is in two shards" : "are in no shard", to_string(shape)));
  }

  FileSystem& files_;
  const Site& site_;
  FaultList& faults_;
  std::optional<Index> index_;
  std::vector<Header> headers_;  // by file; without bytes: it could not be read
  std::size_t left_out_ = 0;
  std::string left_out_names_;
  Contents contents_;
};

}  // namespace

bool is_box_shard(std::string_view name) {
  return name.starts_with("shard-") && name.find("-model-") != name.npos && name.ends_with(kExtension);
}

FileList list_files(FileSystem& files, const Site& site) {
  if (site.is_boxed) return {box_shards(files, site.directory), 0};
  if (!site.has_index()) return {{site.name}, 0};
  const Index index = read_index(files, site);
  return {files_of(index), index.bytes};
}

Contents read_contents(FileSystem& files, const Site& site, FaultList& faults) {
  return Reading(files, site, faults).run();
}

}  // namespace cairn::safetensors
