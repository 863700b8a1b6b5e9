// SPDX-License-Identifier: BSD-3-Clause
// Values of a pickle as an arena of nodes. Nothing is ever executed; unknown globals are inert nodes.
//
// Lists, dicts, sets and objects may contain themselves, and nothing bounds how deep values nest: a recursive
// walk needs a depth limit of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/pool.hpp"
#include "pickle/handle.hpp"

namespace cairn::pickle {

enum class Construct : std::uint8_t { reduce, newobj, newobj_ex };

/// Appends-only storage for the nodes of one or several pickles. Spans and views returned stay valid until
/// the next call that adds nodes (they may be arguments of that call). Movable: handles follow the arena.
/// What is asked of a value of the wrong kind throws corrupt: files decide the kinds.
class Arena {
 public:
  // --- making nodes -------------------------------------------------------------------------------------
  Value none() const { return {}; }
  Value boolean(bool value) const { return inline_handle(Kind::boolean, value ? 1 : 0); }
  Value integer(std::int64_t value);
  /// An int of any size; gives Kind::integer when it fits. Empty is 0.
  Value big_integer(std::string_view little_endian);
  Value real(double value);
  /// A new str object each time, except for those of shared_string().
  Value string(std::string_view utf8);
  /// A new str object always, as CPython's str(int) makes even of one digit.
  Value own_string(std::string_view utf8);
  /// The 'latin1' that stands in every protocol 2 `_codecs.encode(…, 'latin1')`: one object per arena, the
  /// first `existing` given (CPython interns it).
  Value latin1(std::optional<Value> existing = {});
  /// b"" and one-byte values are singletons too.
  Value bytes(std::string_view value);
  Value bytearray(std::string_view value);
  Value tuple(std::span<const Value> items) {  ///< () is a singleton
    return items.empty() ? inline_handle(Kind::tuple, 0) : handle(Kind::tuple, add_fixed(items));
  }
  Value list();
  Value dict();
  Value set();
  Value frozenset(std::span<const Value> items);
  /// One handle per (module, name). Throws unsupported past 65 536 of them.
  Value global(std::string_view module, std::string_view name);
  Value object(Construct how, Value callable, Value args, Value kwargs = {});
  /// CPython's pickler asks for a new id tuple at each occurrence: make a new node for each to write the
  /// same.
  Value persistent(Value id);

  // --- filling containers and objects -------------------------------------------------------------------
  void append(Value container, Value item);  ///< list, set, or object with list items
  void append_all(Value container, std::span<const Value> items);
  /// dict, or object with dict items; duplicates kept in order
  void set_item(Value container, Value key, Value value);
  void set_all(Value container, std::span<const Value> keys_and_values);
  void set_state(Value object, Value state);
  /// The reader tells of each dict that it fetches from the memo.
  void dict_fetched(Value) {}

  // --- looking --------------------------------------------------------------------------------------------
  bool as_boolean(Value value) const;
  std::int64_t as_integer(Value value) const;
  double as_real(Value value) const;
  std::string_view text(Value value) const;  ///< string, bytes, bytearray, big_integer
  /// tuple, list, set, frozenset: items. dict: key, value, key, value …
  std::span<const Value> items(Value value) const;

  struct GlobalName {
    std::string_view module, name;
  };
  GlobalName global_name(Value value) const;
  /// nullopt if no value of this arena is that global.
  std::optional<Value> find_global(std::string_view module, std::string_view name) const;
  std::optional<Value> find_latin1() const { return latin1_; }

  struct ObjectView {
    Construct how;
    Value callable, args, kwargs;
    std::optional<Value> state;
    std::span<const Value> list_items;
    std::span<const Value> dict_items;  ///< key, value, key, value …
  };
  ObjectView object_view(Value value) const;
  Value persistent_id(Value value) const;

  /// The value of the last item with this str key in a dict (or an object's dict items); nullopt if absent.
  std::optional<Value> find(Value dict, std::string_view key) const;
  bool is_global(Value value, std::string_view module, std::string_view name) const;

  /// Bytes held by the arena.
  std::size_t memory_bytes() const;

 protected:
  /// Empties a dict, with its room if that is the last given out.
  void clear(Value dict);

 private:
  struct Range {
    std::uint64_t first = 0;
    std::uint32_t size = 0, capacity = 0;
  };
  struct Object {
    Value callable, args, state;  // state may also be kNoState or a place in object_items_
  };
  struct ObjectItems {
    Value state, kwargs;
    Range list, dict;
  };
  struct Global {
    std::uint64_t module, name;  // places in text_
  };

  std::uint64_t add_text(std::string_view text);
  std::string_view text_at(std::uint64_t place) const;
  std::uint64_t add_fixed(std::span<const Value> items);
  std::span<const Value> fixed_at(std::uint64_t place) const {
    return values_.span(place + 1, values_[place].bits);
  }
  void extend(Range& range, std::span<const Value> items);
  std::span<const Value> view(const Range& range) const { return items_.span(range.first, range.size); }
  ObjectItems& items_of(Value object);
  std::size_t global_slot(std::string_view module, std::string_view name) const;
  void grow_global_slots();

  Pool<char> text_;                   // 8-byte length, bytes
  Pool<Value> values_;                // tuples: count, items
  Pool<Value> items_;                 // of the growing containers
  Pool<Range> ranges_;                // lists, dicts, sets
  Pool<Object> objects_;              //
  Pool<ObjectItems> object_items_;    // of the few objects that have some
  Pool<std::uint64_t> numbers_;       // doubles, and integers too wide for a handle
  Pool<Global> globals_;              //
  Pool<std::uint32_t> global_slots_;  // open hashing: 1 + index into globals_
  std::optional<Value> latin1_;
};

inline Value Arena::integer(std::int64_t value) {
  const auto payload = static_cast<std::uint64_t>(value);
  if (value >= -kInlineLimit && value < kInlineLimit) return inline_handle(Kind::integer, payload);
  numbers_.push(payload);
  return handle(Kind::integer, numbers_.size() - 1);
}

inline std::int64_t Arena::as_integer(Value value) const {
  expect(Kind::integer, value);
  if (is_inline(value)) return static_cast<std::int64_t>(value.bits) >> kPayloadShift;
  return static_cast<std::int64_t>(numbers_[index_of(value)]);
}

inline std::uint64_t Arena::add_fixed(std::span<const Value> items) {
  const auto source = values_.source(items);
  const std::size_t place = values_.extend(1 + items.size());
  values_[place] = {items.size()};
  if (items.size() <= 4 && !source.outside.empty()) {  // shapes, mostly: not worth a call
    for (std::size_t i = 0; i < items.size(); ++i) values_[place + 1 + i] = items[i];
  } else {
    values_.copy(place + 1, source);
  }
  return place;
}

inline std::span<const Value> Arena::items(Value value) const {
  switch (value.kind()) {
    case Kind::tuple:
    case Kind::frozenset:
      return is_inline(value) ? std::span<const Value>{} : fixed_at(index_of(value));
    case Kind::list:
    case Kind::dict:
    case Kind::set:
      return view(ranges_[index_of(value)]);
    default:
      wrong_kind("a container", value);
  }
}

}  // namespace cairn::pickle
