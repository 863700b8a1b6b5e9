// SPDX-License-Identifier: BSD-3-Clause
#include "plan/planned_catalog.hpp"

#include <algorithm>
#include <charconv>

#include "base/pool.hpp"
#include "base/text.hpp"
#include "plan/chunk_grid.hpp"
#include "plan/container_paths.hpp"

namespace cairn {
namespace {

/// Visits the steps of a path as (text, is_position).
template <class Visit>
void for_each_step(std::string_view name, std::span<const NameCut> cuts, Visit&& visit) {
  std::size_t at = 0;
  for (const NameCut& cut : cuts) {
    visit(name.substr(at, cut.length), cut.is_position);
    at += cut.length + 1;
  }
}

std::int64_t number(std::string_view digits) {
  std::int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

bool holds(BoxView box, std::span<const std::int64_t> element) {
  for (std::size_t d = 0; d < element.size(); ++d) {
    if (element[d] < box.offsets[d] || element[d] - box.offsets[d] >= box.sizes[d]) return false;
  }
  return true;
}

}  // namespace

void PlannedCatalog::build() {
  sort_by_name();
  plan_.catalog.reserve_entries(pieces_.names().size());
  plan_.catalog.reserve_chunks(items_.size(), 2);
  keys_.reserve(pieces_.names().size());
  reserve_large(plan_.chunks, items_.size());
  std::vector<bool> is_added(pieces_.names().size(), false);
  for (const NamedItem& item : items_) {
    if (is_added[item.name]) continue;
    is_added[item.name] = true;
    add(item.name);
  }
  for (std::uint32_t name = 0; name < is_added.size(); ++name) {
    if (!is_added[name])
      faults_.add("'{}': no rank holds an element of it", escape_name(pieces_.names()[name]));
  }
  faults_.throw_if_any("the boxes of the ranks do not make whole tensors");
  const auto cuts_of = [&](std::uint32_t name) {
    const Held& first = pieces_.first_of(name);
    return states_[first.rank]->cuts(first.entry);
  };
  ContainerPaths(pieces_.names(), cuts_of).check(faults_);
  faults_.throw_if_any("the paths of the names exclude each other");
}

void PlannedCatalog::sort_by_name() {
  begins_.assign(pieces_.names().size() + 2, 0);
  reserve_large(by_name_, items_.size());
  by_name_.resize(items_.size());
  for (const NamedItem& item : items_) ++begins_[item.name + 2];
  for (std::size_t i = 2; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
  for (std::uint32_t i = 0; i < items_.size(); ++i) by_name_[begins_[items_[i].name + 1]++] = i;
}

void PlannedCatalog::add(std::uint32_t name) {
  const Held& first = pieces_.first_of(name);
  const RankState& state = *states_[first.rank];
  const bool is_key = state.cuts(first.entry).size() == 1;  // its own path: one string, as in Python
  const StringId id =
      is_key ? intern(pieces_.names()[name]) : plan_.catalog.add_string(pieces_.names()[name]);
  if (state.is_tensor(first.entry)) {
    plan_.catalog.add_tensor(id, state.dtype(first.entry), state.shape(first.entry));
    add_chunks(name);
  } else {
    plan_.catalog.add_object(id, kNoFile, 0, 0);
    plan_.objects.push_back(items_[items_of(name)[0]].item);
  }
  add_path(name);
}

void PlannedCatalog::add_chunks(std::uint32_t name) {
  const Held& first = pieces_.first_of(name);
  const auto shape = states_[first.rank]->shape(first.entry);
  for (const std::uint32_t i : items_of(name)) {
    const auto [rank, item] = items_[i].item;
    const BoxView box = plan_.parts[rank].box(*states_[rank], plan_.parts[rank].items()[item]);
    plan_.catalog.add_chunk(box, kNoFile, 0, 0);
    plan_.chunks.push_back({rank, item});
  }
  require_whole(name, shape);
}

void PlannedCatalog::require_whole(std::uint32_t name, std::span<const std::int64_t> shape) {
  const auto items = items_of(name);
  const TensorInfo& tensor = plan_.catalog.tensors().back();
  const auto chunks = plan_.catalog.chunks(tensor);
  const BoxAt box_at = [&](std::size_t i) { return plan_.catalog.box(tensor, chunks[i]); };
  const auto fault = with_context([&] { return fmt::format("'{}'", escape_name(pieces_.names()[name])); },
                                  [&] { return find_tiling_fault(shape, items.size(), box_at); });
  if (!fault) return;
  std::string who;
  for (std::size_t i = 0; fault->overlap && i < items.size(); ++i) {
    if (!holds(box_at(i), fault->element)) continue;
    who += fmt::format("{} box {} of rank {}", who.empty() ? ":" : ",", to_string(box_at(i)),
                       items_[items[i]].item.rank);
  }
  const std::string element = fault->element.empty() && !shape.empty()
                                  ? std::string("an element")
                                  : fmt::format("element {}", to_string(fault->element));
  faults_.add("'{}' of shape {}: {} {}{}", escape_name(pieces_.names()[name]), to_string(shape), element,
              fault->overlap ? "lies in several boxes" : "is held by no rank", who);
}

StringId PlannedCatalog::intern(std::string_view text) {
  const std::uint32_t number = keys_.add(text);
  if (number == key_ids_.size()) key_ids_.push_back(plan_.catalog.add_string(text));
  return key_ids_[number];
}

// Neighbours share most of their keys.
void PlannedCatalog::add_path(std::uint32_t name) {
  const Held& first = pieces_.first_of(name);
  const auto cuts = states_[first.rank]->cuts(first.entry);
  if (cuts.empty()) return;
  path_.clear();
  for_each_step(pieces_.names()[name], cuts, [&](std::string_view text, bool is_position) {
    const std::size_t at = path_.size();
    if (is_position) {
      path_.push_back({number(text), true});
    } else if (at < last_path_.size() && !last_path_[at].is_position &&
               plan_.catalog.text(static_cast<StringId>(last_path_[at].value)) == text) {
      path_.push_back(last_path_[at]);
    } else {
      path_.push_back({intern(text), false});
    }
  });
  plan_.catalog.set_path(path_);
  last_path_.swap(path_);
}

}  // namespace cairn
