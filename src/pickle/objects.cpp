// SPDX-License-Identifier: BSD-3-Clause
// Arena: objects, persistent nodes and globals.
#include <algorithm>
#include <functional>

#include "base/fail.hpp"
#include "pickle/value.hpp"

namespace cairn::pickle {
namespace {

constexpr std::size_t kMaxGlobals = 65536;

}  // namespace

Arena::ObjectItems& Arena::items_of(Value object) {
  Value& state = objects_[index_of(object) >> kConstructBits].state;
  if ((state.bits & 0xff) != kItemsMark) {
    object_items_.push({state, {}, {}, {}});
    state.bits = kItemsMark | (object_items_.size() - 1) << kPayloadShift;
  }
  return object_items_[index_of(state)];
}

Value Arena::object(Construct how, Value callable, Value args, Value kwargs) {
  objects_.push({callable, args, kNoState});
  const auto index = (objects_.size() - 1) << kConstructBits | static_cast<std::uint64_t>(how);
  const Value made = handle(Kind::object, index);
  if (kwargs != none()) items_of(made).kwargs = kwargs;
  return made;
}

void Arena::set_state(Value object, Value state) {
  expect(Kind::object, object);
  Value& place = objects_[index_of(object) >> kConstructBits].state;
  ((place.bits & 0xff) == kItemsMark ? object_items_[index_of(place)].state : place) = state;
}

Arena::ObjectView Arena::object_view(Value value) const {
  expect(Kind::object, value);
  const Object& node = objects_[index_of(value) >> kConstructBits];
  const auto how = static_cast<Construct>(index_of(value) & ((1 << kConstructBits) - 1));
  ObjectView result{how, node.callable, node.args, {}, {}, {}, {}};
  Value state = node.state;
  if ((state.bits & 0xff) == kItemsMark) {
    const ObjectItems& items = object_items_[index_of(state)];
    state = items.state;
    result.kwargs = items.kwargs;
    result.list_items = view(items.list);
    result.dict_items = view(items.dict);
  }
  if (state != kNoState) result.state = state;
  return result;
}

Value Arena::persistent(Value id) {
  values_.push(id);
  return handle(Kind::persistent, values_.size() - 1);
}

Value Arena::persistent_id(Value value) const {
  expect(Kind::persistent, value);
  return values_[index_of(value)];
}

// --- globals ----------------------------------------------------------------------------------------------

std::size_t Arena::global_slot(std::string_view module, std::string_view name) const {
  const std::size_t mask = global_slots_.size() - 1;
  const std::hash<std::string_view> hash;
  std::size_t slot = (hash(module) * 31 + hash(name)) & mask;
  for (; global_slots_[slot] != 0; slot = (slot + 1) & mask) {
    const Global& known = globals_[global_slots_[slot] - 1];
    if (text_at(known.name) == name && text_at(known.module) == module) break;
  }
  return slot;
}

void Arena::grow_global_slots() {
  const std::size_t count = std::max<std::size_t>(64, 2 * global_slots_.size());
  global_slots_.shrink(0);
  global_slots_.extend(count);
  std::fill_n(&global_slots_[0], count, 0u);
  for (std::uint32_t i = 0; i < globals_.size(); ++i) {
    global_slots_[global_slot(text_at(globals_[i].module), text_at(globals_[i].name))] = i + 1;
  }
}

Value Arena::global(std::string_view module, std::string_view name) {
  if (2 * globals_.size() >= global_slots_.size()) grow_global_slots();
  const std::size_t slot = global_slot(module, name);
  if (global_slots_[slot] == 0) {
    if (globals_.size() == kMaxGlobals) {
      fail(ErrorKind::unsupported, "pickle: more than {} different globals", kMaxGlobals);
    }
    const std::uint64_t name_place = add_text(name);
    globals_.push({add_text(module), name_place});
    global_slots_[slot] = static_cast<std::uint32_t>(globals_.size());
  }
  return handle(Kind::global, global_slots_[slot] - 1);
}

std::optional<Value> Arena::find_global(std::string_view module, std::string_view name) const {
  if (globals_.size() == 0) return {};
  const std::uint32_t found = global_slots_[global_slot(module, name)];
  if (found == 0) return {};
  return handle(Kind::global, found - 1);
}

Arena::GlobalName Arena::global_name(Value value) const {
  expect(Kind::global, value);
  const Global& global = globals_[index_of(value)];
  return {text_at(global.module), text_at(global.name)};
}

bool Arena::is_global(Value value, std::string_view module, std::string_view name) const {
  if (value.kind() != Kind::global) return false;
  const GlobalName found = global_name(value);
  return found.name == name && found.module == module;
}

}  // namespace cairn::pickle
