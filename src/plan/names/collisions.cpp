// SPDX-License-Identifier: BSD-3-Clause
#include "plan/names/collisions.hpp"

#include <algorithm>
#include <memory_resource>
#include <unordered_map>
#include <vector>

#include "base/fail.hpp"
#include "base/keyed_hash.hpp"
#include "base/text.hpp"

namespace cairn {
namespace {

enum class Kind : std::uint8_t { leaf, dict, list };

struct Place {
  std::uint32_t parent;
  std::int64_t position;
  std::string_view key;
  bool operator==(const Place&) const = default;
};

struct PlaceHash {
  std::size_t operator()(const Place& place) const {
    const std::uint64_t tweak =
        (std::uint64_t{place.parent} << 32) + static_cast<std::uint64_t>(place.position);
    return keyed_hash(std::as_bytes(std::span(place.key.data(), place.key.size())), tweak);
  }
};

struct Node {
  std::uint32_t id;
  Kind kind;
  std::uint32_t first_user;  // index into kept
};

class CollisionSearch {
 public:
  CollisionSearch(std::span<const KeptEntry> kept, std::span<const NamedEntry> entries)
      : kept_(kept), entries_(entries) {}

  void names() {
    std::pmr::unordered_map<std::string_view, std::uint32_t, KeyedHash> users(&storage_);
    users.reserve(kept_.size());
    for (std::uint32_t i = 0; i < kept_.size(); ++i) {
      const auto [at, is_new] = users.emplace(kept_[i].name, i);
      if (!is_new) fail(ErrorKind::mismatch, "{} and {} have the same name", shown(at->second), shown(i));
    }
  }

  void paths() {
    nodes_.reserve(kept_.size());
    for (std::uint32_t i = 0; i < kept_.size(); ++i) add(i);
  }

 private:
  void add(std::uint32_t index) {
    const PathKey whole{kept_[index].name};
    const auto path = kept_[index].path.empty() ? std::span(&whole, 1) : kept_[index].path;
    std::size_t i = 0;
    while (i + 1 < std::min(path.size(), line_.size()) && is_at(line_[i], path[i]) &&
           is_at(line_[i + 1], path[i + 1]))
      ++i;
    line_.resize(i);
    line_ids_.resize(i);
    std::uint32_t parent = i == 0 ? 0 : line_ids_.back();
    for (; i < path.size(); ++i) {
      const bool is_last = i + 1 == path.size();
      const Kind kind = is_last ? Kind::leaf : path[i + 1].is_position() ? Kind::list : Kind::dict;
      const Place place{parent, path[i].position, path[i].key};
      const auto next = static_cast<std::uint32_t>(nodes_.size() + 1);
      const auto [at, is_new] = nodes_.emplace(place, Node{next, kind, index});
      if (!is_new && (is_last || at->second.kind != kind)) collide(at->second, kind, index);
      parent = at->second.id;
      line_.push_back(place);
      line_ids_.push_back(parent);
    }
  }

  static bool is_at(const Place& place, const PathKey& step) {
    return place.position == step.position && place.key == step.key;
  }

  [[noreturn]] void collide(const Node& node, Kind kind, std::uint32_t index) const {
    const std::string first = shown(node.first_user), second = shown(index);
    if (node.kind == kind) fail(ErrorKind::mismatch, "{} and {} have the same path", first, second);
    if (node.kind == Kind::leaf) fail(ErrorKind::mismatch, "{} would lie under {}", second, first);
    if (kind == Kind::leaf) fail(ErrorKind::mismatch, "{} would lie under {}", first, second);
    fail(ErrorKind::mismatch, "{} and {} would make one container a dict and a list", first, second);
  }

  std::string shown(std::uint32_t index) const {
    const KeptEntry& kept = kept_[index];
    if (!kept.is_renamed) return fmt::format("'{}'", escape_name(kept.name));
    return fmt::format("'{}' (from '{}')", escape_name(kept.name), escape_name(entries_[kept.entry].name));
  }

  std::span<const KeptEntry> kept_;
  std::span<const NamedEntry> entries_;
  std::pmr::monotonic_buffer_resource storage_;
  std::pmr::unordered_map<Place, Node, PlaceHash> nodes_{&storage_};
  std::vector<Place> line_;  // the places on the path added last: names in order share most of them
  std::vector<std::uint32_t> line_ids_;
};

}  // namespace

void require_no_collision(std::span<const KeptEntry> kept, std::span<const NamedEntry> entries, bool nested) {
  CollisionSearch search(kept, entries);
  search.names();
  if (nested) search.paths();
}

}  // namespace cairn
