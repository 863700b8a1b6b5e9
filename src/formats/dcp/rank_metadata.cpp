// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/rank_metadata.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>

#include "base/fail.hpp"
#include "base/keyed_hash.hpp"
#include "base/text.hpp"

namespace cairn::dcp {
namespace {

constexpr std::string_view kPrefix = "__", kSuffix = ".metadata";

std::string metadata_name(int rank) { return fmt::format("{}{}{}", kPrefix, rank, kSuffix); }

class Join {
 public:
  Join(std::span<const DecodedMetadata> ranks, FaultList& faults) : ranks_(ranks), faults_(faults) {}

  DecodedMetadata run() {
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) take(rank);
    for (const Joined& one : joined_) add(one);
    if (repeated_objects_ > 0) {
      result_.notes.push_back(
          fmt::format("{} objects are in the metadata of several ranks: those of the lowest are taken",
                      repeated_objects_));
    }
    return std::move(result_);
  }

 private:
  /// Where an entry is: in the catalogue of a rank.
  struct Place {
    std::uint32_t rank;
    const Entry* entry;
  };
  struct Joined {
    std::vector<Place> places;  // ascending by rank
  };

  const Catalog& catalog(std::uint32_t rank) const { return ranks_[rank].catalog; }

  void take(std::uint32_t rank) {
    result_.metadata_bytes += ranks_[rank].metadata_bytes;
    result_.notes.insert(result_.notes.end(), ranks_[rank].notes.begin(), ranks_[rank].notes.end());
    files_.emplace_back();
    for (const std::string& file : catalog(rank).files()) files_.back().push_back(file_number(file));
    for (const Entry& entry : catalog(rank).entries()) {
      const auto [known, is_new] = numbers_.try_emplace(catalog(rank).name(entry), joined_.size());
      if (is_new) joined_.emplace_back();
      Joined& one = joined_[known->second];
      if (!is_new && !fits(one, rank, entry)) continue;
      one.places.push_back({rank, &entry});
    }
  }

  std::uint32_t file_number(const std::string& file) {
    const auto [known, is_new] = file_numbers_.try_emplace(file, 0);
    if (is_new) known->second = result_.catalog.add_file(file);
    return known->second;
  }

  bool fits(const Joined& one, std::uint32_t rank, const Entry& entry) {
    const auto [first, known] = one.places.front();
    const auto differ = [&](FaultKind kind, std::string_view what, std::string_view theirs,
                            std::string_view ours) {
      const std::string name(catalog(rank).name(entry));
      faults_.add({kind, name, metadata_name(static_cast<int>(rank)), 0,
                   fmt::format("'{}': {} is {} in {}, {} in {}", escape_name(name), what, ours,
                               metadata_name(static_cast<int>(rank)), theirs,
                               metadata_name(static_cast<int>(first)))});
      return false;
    };
    if (known->is_tensor != entry.is_tensor)
      return differ(FaultKind::storage_data, "it", known->is_tensor ? "a tensor" : "an object",
                    entry.is_tensor ? "a tensor" : "an object");
    if (!entry.is_tensor) {
      ++repeated_objects_;
      return false;
    }
    const TensorInfo &a = catalog(first).tensors()[known->index], &b = catalog(rank).tensors()[entry.index];
    const auto shape_a = catalog(first).shape(a), shape_b = catalog(rank).shape(b);
    if (a.dtype != b.dtype) return differ(FaultKind::dtype, "dtype", info(a.dtype).name, info(b.dtype).name);
    if (!std::ranges::equal(shape_a, shape_b))
      return differ(FaultKind::shape, "shape", to_string(shape_a), to_string(shape_b));
    return true;
  }

  void add(const Joined& one) {
    const auto [rank, entry] = one.places.front();
    const StringId name = result_.catalog.add_string(catalog(rank).name(*entry));
    if (entry->is_tensor) {
      const TensorInfo& tensor = catalog(rank).tensors()[entry->index];
      result_.catalog.add_tensor(name, tensor.dtype, catalog(rank).shape(tensor));
      add_chunks(one);
    } else {
      const StoredItem& item = catalog(rank).objects()[entry->index].item;
      result_.catalog.add_object(name, file_of(rank, item), item.byte_offset, item.byte_length,
                                 item.transform);
    }
    add_path(rank, *entry);
  }

  std::uint32_t file_of(std::uint32_t rank, const StoredItem& item) const {
    return item.file == kNoFile ? kNoFile : files_[rank][item.file];
  }

  void add_chunks(const Joined& one) {
    std::set<std::vector<std::int64_t>> known;  // offsets and sizes
    for (const auto& [rank, entry] : one.places) {
      const TensorInfo& tensor = catalog(rank).tensors()[entry->index];
      for (const StoredItem& chunk : catalog(rank).chunks(tensor)) {
        const BoxView box = catalog(rank).box(tensor, chunk);
        std::vector<std::int64_t> key(box.offsets.begin(), box.offsets.end());
        key.insert(key.end(), box.sizes.begin(), box.sizes.end());
        if (!known.insert(std::move(key)).second) continue;
        result_.catalog.add_chunk(box, file_of(rank, chunk), chunk.byte_offset, chunk.byte_length,
                                  chunk.transform);
      }
    }
  }

  void add_path(std::uint32_t rank, const Entry& entry) {
    if (!entry.has_path) return;
    path_.clear();
    for (const PathStep step : catalog(rank).path(entry)) {
      if (step.is_position)
        path_.push_back(step);
      else
        path_.push_back(
            {static_cast<std::int64_t>(key(catalog(rank).text(static_cast<StringId>(step.value)))), false});
    }
    result_.catalog.set_path(path_);
  }

  StringId key(std::string_view text) {
    const auto [known, is_new] = keys_.try_emplace(text, 0);
    if (is_new) known->second = result_.catalog.add_string(text);
    return known->second;
  }

  std::span<const DecodedMetadata> ranks_;
  FaultList& faults_;
  DecodedMetadata result_;
  std::unordered_map<std::string_view, std::size_t, KeyedHash> numbers_;  // into joined_
  std::vector<Joined> joined_;
  std::unordered_map<std::string, std::uint32_t, KeyedHash> file_numbers_;
  std::vector<std::vector<std::uint32_t>> files_;  // of each rank: the numbers of its files
  std::unordered_map<std::string_view, StringId, KeyedHash> keys_;
  std::vector<PathStep> path_;
  std::size_t repeated_objects_ = 0;
};

}  // namespace

std::optional<int> metadata_rank(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  if (name.size() <= kPrefix.size() + kSuffix.size()) return std::nullopt;
  const auto digits = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  int rank = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size() && rank >= 0;
  return is_number && metadata_name(rank) == name ? std::optional(rank) : std::nullopt;
}

std::string first_metadata_name(FileSystem& files, const std::string& directory) {
  if (!files.status(directory + "/.metadata") && files.status(directory + "/" + metadata_name(0)))
    return metadata_name(0);
  return ".metadata";
}

DecodedMetadata decode_rank_metadata(FileSystem& files, const std::string& directory, FaultList& faults) {
  std::set<int> ranks;
  for (const std::string& name : files.list(directory)) {
    if (const auto rank = metadata_rank(name)) ranks.insert(*rank);
  }
  int expected = 0;
  for (const int rank : ranks) {
    if (rank != expected++) {
      fail_corrupt("{}/{}: the file is missing: there is {}", escape_name(directory),
                   metadata_name(expected - 1), metadata_name(rank));
    }
  }
  std::vector<DecodedMetadata> decoded;
  for (const int rank : ranks) {
    const std::string path = directory + "/" + metadata_name(rank);
    decoded.push_back(decode_metadata(*files.open_read(path), path, faults));
  }
  return join_rank_metadata(decoded, faults);
}

DecodedMetadata join_rank_metadata(std::span<const DecodedMetadata> ranks, FaultList& faults) {
  return Join(ranks, faults).run();
}

}  // namespace cairn::dcp
