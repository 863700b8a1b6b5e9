// SPDX-License-Identifier: BSD-3-Clause
// Values of a pickle as an arena of nodes. A Value is an 8-byte handle; two handles are equal when they are
// the same Python object (BINGET gives the same handle again), so identity survives reading and writing:
// torch's byte layout depends on it. Nothing is ever executed; unknown globals are inert nodes.
//
// Lists, dicts, sets and objects may contain themselves, and nothing bounds how deep values nest: a recursive
// walk needs a depth limit of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "pickle/pool.hpp"

namespace cairn::pickle {

enum class Kind : std::uint8_t {
  none,
  boolean,
  integer,      ///< fits int64
  big_integer,  ///< Python int beyond int64: little-endian two's complement bytes, as few as possible
  real,
  string,  ///< UTF-8 bytes as in the file (surrogatepass allowed)
  bytes,
  bytearray,
  tuple,
  list,
  dict,
  set,
  frozenset,
  global,      ///< module and qualified name by their Python 3 names, never resolved
  object,      ///< REDUCE, NEWOBJ or NEWOBJ_EX of a callable, with state and items set later
  persistent,  ///< BINPERSID of a value
};

/// "none", "boolean", "integer" …
std::string_view to_string(Kind kind);

struct Value {
  std::uint64_t bits = 0;  ///< kind in the low 8 bits, index or inline payload above; 0 is None
  Kind kind() const { return static_cast<Kind>(bits & 0xff); }
  friend bool operator==(Value, Value) = default;  ///< Python's `is`
};

/// Identity as numbers: values with the same space and index are the same value, and the indices of a space
/// are dense (at most as large as what the arena holds). Not for None, bools, ints and floats.
constexpr std::size_t kIdentitySpaces = 33;
std::size_t identity_space(Value value);
std::uint64_t identity_index(Value value);
/// Values that are in no arena, for objects that exist only while something is written: `number` tells them
/// apart.
Value outside_value(std::uint64_t number);

/// The str singletons of CPython, the same in every arena: '' and one character up to U+00FF.
std::optional<Value> shared_string(std::string_view utf8);

enum class Construct : std::uint8_t { reduce, newobj, newobj_ex };

/// Appends-only storage for the nodes of one or several pickles. Spans and views returned stay valid until
/// the next call that adds nodes (they may be arguments of that call). Movable: handles follow the arena.
/// What is asked of a value of the wrong kind throws corrupt: files decide the kinds.
class Arena {
 public:
  // --- making nodes -------------------------------------------------------------------------------------
  Value none() const { return {}; }
  Value boolean(bool value) const;
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
  Value tuple(std::span<const Value> items);  ///< () is a singleton
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
  std::span<const Value> fixed_at(std::uint64_t place) const;
  void extend(Range& range, std::span<const Value> items);
  std::span<const Value> view(const Range& range) const { return values_.span(range.first, range.size); }
  ObjectItems& items_of(Value object);
  std::size_t global_slot(std::string_view module, std::string_view name) const;
  void grow_global_slots();

  Pool<char> text_;                   // 8-byte length, bytes
  Pool<Value> values_;                // tuples: count, items; ranges of the growing containers
  Pool<Range> ranges_;                // lists, dicts, sets
  Pool<Object> objects_;              //
  Pool<ObjectItems> object_items_;    // of the few objects that have some
  Pool<std::uint64_t> numbers_;       // doubles, and integers too wide for a handle
  Pool<Global> globals_;              //
  Pool<std::uint32_t> global_slots_;  // open hashing: 1 + index into globals_
  std::optional<Value> latin1_;
};

}  // namespace cairn::pickle
