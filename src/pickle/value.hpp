// SPDX-License-Identifier: BSD-3-Clause
// Values of a pickle as an arena of nodes. A Value is an 8-byte handle; two handles are equal when they are the
// same Python object (BINGET gives the same handle again), so identity survives reading and writing: torch's
// byte layout depends on it. Nothing is ever executed; unknown globals are inert nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::pickle {

enum class Kind : std::uint8_t {
  none,
  boolean,
  integer,      ///< fits int64
  big_integer,  ///< Python int beyond int64: little-endian two's complement bytes
  real,
  string,  ///< UTF-8 bytes as in the file (surrogatepass allowed)
  bytes,
  bytearray,
  tuple,
  list,
  dict,
  set,
  frozenset,
  global,      ///< module and qualified name, never resolved
  object,      ///< REDUCE, NEWOBJ or NEWOBJ_EX of a callable, with state and items set later
  persistent,  ///< BINPERSID of a value
};

struct Value {
  std::uint64_t bits = 0;  ///< kind in the low 8 bits, index or inline payload above; 0 is None
  Kind kind() const { return static_cast<Kind>(bits & 0xff); }
  friend bool operator==(Value, Value) = default;  ///< Python's `is`
};

enum class Construct : std::uint8_t { reduce, newobj, newobj_ex };

/// Appends-only storage for the nodes of one or several pickles. Spans and views returned stay valid until the
/// next call that adds nodes.
class Arena {
 public:
  // --- making nodes -------------------------------------------------------------------------------------
  Value none() const { return {}; }
  Value boolean(bool value) const;
  Value integer(std::int64_t value);
  Value big_integer(std::string_view little_endian);
  Value real(double value);
  /// A new str object. As in CPython, the empty string and one-character strings up to U+00FF are singletons:
  /// the same handle each time.
  Value string(std::string_view utf8);
  /// b"" and one-byte values are singletons too.
  Value bytes(std::string_view value);
  Value bytearray(std::string_view value);
  Value tuple(std::span<const Value> items);  ///< () is a singleton
  Value list();
  Value dict();
  Value set();
  Value frozenset(std::span<const Value> items);
  /// One handle per (module, name).
  Value global(std::string_view module, std::string_view name);
  Value object(Construct how, Value callable, Value args, Value kwargs = {});
  Value persistent(Value id);

  // --- filling containers and objects -------------------------------------------------------------------
  void append(Value container, Value item);            ///< list, set, or object with list items
  void set_item(Value container, Value key, Value value);  ///< dict, or object with dict items; duplicates kept in order
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
  // chosen by the implementation
};

}  // namespace cairn::pickle
