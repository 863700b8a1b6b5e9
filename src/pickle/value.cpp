// SPDX-License-Identifier: BSD-3-Clause
#include "pickle/value.hpp"

#include <array>
#include <bit>
#include <limits>

#include "base/fail.hpp"

namespace cairn::pickle {
namespace {

constexpr std::uint64_t kEmptyText = 256;  // inline payload of '' and b''; below it: the one character

constexpr std::array<std::string_view, 17> kKindNames{
    "none", "boolean", "integer", "big_integer", "real",   "string", "bytes",      "bytearray", "tuple",
    "list", "dict",    "set",     "frozenset",   "global", "object", "persistent", "row"};

struct OneCharacterTexts {
  char bytes[256];
  char utf8[256][2];
};
constexpr OneCharacterTexts kTexts = [] {
  OneCharacterTexts texts{};
  for (unsigned c = 0; c < 256; ++c) {
    texts.bytes[c] = static_cast<char>(c);
    texts.utf8[c][0] = static_cast<char>(c < 0x80 ? c : 0xc0 | c >> 6);
    texts.utf8[c][1] = static_cast<char>(0x80 | (c & 0x3f));
  }
  return texts;
}();

std::string_view inline_text(Value value) {
  const std::uint64_t c = index_of(value);
  if (c == kEmptyText) return {};
  if (value.kind() == Kind::bytes) return {&kTexts.bytes[c], 1};
  return {kTexts.utf8[c], c < 0x80 ? std::size_t{1} : std::size_t{2}};
}

std::optional<std::uint64_t> one_latin1_character(std::string_view utf8) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(utf8[i]); };
  if (utf8.empty()) return kEmptyText;
  if (utf8.size() == 1 && byte(0) < 0x80) return byte(0);
  if (utf8.size() == 2 && (byte(0) == 0xc2 || byte(0) == 0xc3) && byte(1) >> 6 == 2)
    return (byte(0) & 3u) << 6 | (byte(1) & 0x3fu);
  return {};
}

/// Without the bytes that only repeat the sign.
std::string_view minimal(std::string_view little_endian) {
  while (little_endian.size() > 1) {
    const auto last = static_cast<unsigned char>(little_endian.back());
    const bool negative = (little_endian[little_endian.size() - 2] & 0x80) != 0;
    if (last != (negative ? 0xff : 0x00)) break;
    little_endian.remove_suffix(1);
  }
  return little_endian;
}

}  // namespace

std::string_view to_string(Kind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index < kKindNames.size() ? kKindNames[index] : "invalid";
}

// --- identity ---------------------------------------------------------------------------------------------

std::size_t identity_space(Value value) {
  const std::uint64_t kind = value.bits & 0xff;
  return kind == kOutsideMark ? kIdentitySpaces - 1 : kind * 2 + (is_inline(value) ? 1 : 0);
}

std::uint64_t identity_index(Value value) {
  switch (value.kind()) {
    case Kind::string:
    case Kind::bytes:
    case Kind::bytearray:
    case Kind::big_integer:
      return is_inline(value) ? index_of(value) : index_of(value) / sizeof(std::uint64_t);  // length in front
    case Kind::object:
      return index_of(value) >> kConstructBits;
    default:
      return index_of(value);
  }
}

Value outside_value(std::uint64_t number) { return {kOutsideMark | number << kPayloadShift}; }

// --- scalars ----------------------------------------------------------------------------------------------

bool Arena::as_boolean(Value value) const {
  expect(Kind::boolean, value);
  return index_of(value) != 0;
}

Value Arena::big_integer(std::string_view little_endian) {
  const std::string_view digits = minimal(little_endian);
  if (digits.size() > sizeof(std::int64_t)) return handle(Kind::big_integer, add_text(digits));
  const bool negative = !digits.empty() && (digits.back() & 0x80) != 0;
  std::int64_t value = negative ? -1 : 0;
  if (!digits.empty()) std::memcpy(&value, digits.data(), digits.size());
  return integer(value);
}

Value Arena::real(double value) {
  numbers_.push(std::bit_cast<std::uint64_t>(value));
  return handle(Kind::real, numbers_.size() - 1);
}

double Arena::as_real(Value value) const {
  expect(Kind::real, value);
  return std::bit_cast<double>(numbers_[index_of(value)]);
}

// --- text -------------------------------------------------------------------------------------------------

std::uint64_t Arena::add_text(std::string_view text) {
  const auto source = text_.source(text);
  const std::uint64_t length = text.size();
  const std::size_t place = text_.extend(sizeof(length) + text.size());
  std::memcpy(&text_[place], &length, sizeof(length));
  text_.copy(place + sizeof(length), source);
  return place;
}

std::string_view Arena::text_at(std::uint64_t place) const {
  std::uint64_t length;
  std::memcpy(&length, &text_[place], sizeof(length));
  return {&text_[place] + sizeof(length), length};
}

std::optional<Value> shared_string(std::string_view utf8) {
  const auto c = one_latin1_character(utf8);
  return c ? std::optional(inline_handle(Kind::string, *c)) : std::nullopt;
}

Value Arena::string(std::string_view utf8) {
  if (const auto shared = shared_string(utf8)) return *shared;
  return own_string(utf8);
}

Value Arena::own_string(std::string_view utf8) { return handle(Kind::string, add_text(utf8)); }

Value Arena::latin1(std::optional<Value> existing) {
  if (!latin1_) latin1_ = existing ? *existing : string("latin1");
  return *latin1_;
}

Value Arena::bytes(std::string_view value) {
  if (value.empty()) return inline_handle(Kind::bytes, kEmptyText);
  if (value.size() == 1) return inline_handle(Kind::bytes, static_cast<unsigned char>(value[0]));
  return handle(Kind::bytes, add_text(value));
}

Value Arena::bytearray(std::string_view value) { return handle(Kind::bytearray, add_text(value)); }

std::string_view Arena::text(Value value) const {
  switch (value.kind()) {
    case Kind::string:
    case Kind::bytes:
    case Kind::bytearray:
    case Kind::big_integer:
      return is_inline(value) ? inline_text(value) : text_at(index_of(value));
    default:
      wrong_kind("text", value);
  }
}

// --- containers -------------------------------------------------------------------------------------------

Value Arena::frozenset(std::span<const Value> items) { return handle(Kind::frozenset, add_fixed(items)); }

Value Arena::list() {
  ranges_.push({});
  return handle(Kind::list, ranges_.size() - 1);
}
Value Arena::dict() {
  ranges_.push({});
  return handle(Kind::dict, ranges_.size() - 1);
}
Value Arena::set() {
  ranges_.push({});
  return handle(Kind::set, ranges_.size() - 1);
}

void Arena::clear(Value dict) {
  expect(Kind::dict, dict);
  Range& range = ranges_[index_of(dict)];
  if (range.first + range.capacity == items_.size()) items_.shrink(range.first);
  range = {};
}

// The first items get exactly their room (most dicts never grow). A later lack takes more behind it where
// nobody else has, or else doubles it elsewhere.
void Arena::extend(Range& range, std::span<const Value> items) {
  if (items.empty()) return;
  const std::uint64_t needed = range.size + items.size();
  if (needed > std::numeric_limits<std::uint32_t>::max()) {
    fail(ErrorKind::unsupported, "pickle: a container of {} values, more than 2^32 - 1", needed);
  }
  const auto source = items_.source(items);
  if (needed > range.capacity && range.capacity > 0 && range.first + range.capacity == items_.size()) {
    items_.extend(needed - range.capacity);
    range.capacity = static_cast<std::uint32_t>(needed);
  } else if (needed > range.capacity) {
    const std::uint64_t doubled = std::min<std::uint64_t>(2 * std::uint64_t{range.capacity}, 0xffffffff);
    const std::uint64_t capacity = std::max(needed, doubled);
    const std::size_t moved = items_.extend(capacity);
    items_.copy(moved, items_.source(view(range)));
    range.first = moved;
    range.capacity = static_cast<std::uint32_t>(capacity);
  }
  items_.copy(range.first + range.size, source);
  range.size = static_cast<std::uint32_t>(needed);
}

void Arena::append(Value container, Value item) { append_all(container, {&item, 1}); }

void Arena::append_all(Value container, std::span<const Value> items) {
  switch (container.kind()) {
    case Kind::list:
    case Kind::set:
      return extend(ranges_[index_of(container)], items);
    case Kind::object:
      return extend(items_of(container).list, items);
    default:
      wrong_kind("something to append to", container);
  }
}

void Arena::set_item(Value container, Value key, Value value) {
  const std::array<Value, 2> pair{key, value};
  set_all(container, pair);
}

void Arena::set_all(Value container, std::span<const Value> keys_and_values) {
  switch (container.kind()) {
    case Kind::dict:
      return extend(ranges_[index_of(container)], keys_and_values);
    case Kind::object:
      return extend(items_of(container).dict, keys_and_values);
    default:
      wrong_kind("dict", container);
  }
}

std::optional<Value> Arena::find(Value dict, std::string_view key) const {
  const auto pairs = dict.kind() == Kind::object ? object_view(dict).dict_items : items(dict);
  for (std::size_t i = pairs.size() & ~std::size_t{1}; i >= 2; i -= 2) {
    if (pairs[i - 2].kind() == Kind::string && text(pairs[i - 2]) == key) return pairs[i - 1];
  }
  return {};
}

std::size_t Arena::memory_bytes() const {
  return text_.memory_bytes() + values_.memory_bytes() + items_.memory_bytes() + ranges_.memory_bytes() +
         objects_.memory_bytes() + object_items_.memory_bytes() + numbers_.memory_bytes() +
         globals_.memory_bytes() + global_slots_.memory_bytes();
}

}  // namespace cairn::pickle
