// SPDX-License-Identifier: BSD-3-Clause
// A Value is an 8-byte handle of a pickled value. Two handles are equal when they are the same Python object
// (BINGET gives the same handle again), so identity survives reading and writing: torch's byte layout depends
// on it. How the 64 bits are used is for Arena and what derives from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/fail.hpp"

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
  row,         ///< an instance that a class derived from Arena keeps in a table of its own
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

constexpr std::uint64_t kInline = 0x100;  // payload in the handle instead of an index
constexpr int kPayloadShift = 9;
constexpr int kConstructBits = 2;  // an object's handle holds its Construct below its index
constexpr Value kNoState{0xff};    // no kind: an object without state
constexpr std::int64_t kInlineLimit = std::int64_t{1} << 54;  // of ints within the handle
constexpr std::uint64_t kOutsideMark = 0xfd;                  // no kind: outside_value()
constexpr std::uint64_t kItemsMark = 0xfe;                    // no kind: the object's state is with its items

inline Value handle(Kind kind, std::uint64_t index) {
  return {static_cast<std::uint64_t>(kind) | index << kPayloadShift};
}
inline Value inline_handle(Kind kind, std::uint64_t payload) {
  return {static_cast<std::uint64_t>(kind) | kInline | payload << kPayloadShift};
}
inline bool is_inline(Value value) { return (value.bits & kInline) != 0; }
inline std::uint64_t index_of(Value value) { return value.bits >> kPayloadShift; }

[[noreturn]] inline void wrong_kind(std::string_view expected, Value found) {
  fail_corrupt("pickle: {} expected, {} found", expected, to_string(found.kind()));
}
inline void expect(Kind kind, Value value) {
  if (value.kind() != kind) wrong_kind(to_string(kind), value);
}

}  // namespace cairn::pickle
