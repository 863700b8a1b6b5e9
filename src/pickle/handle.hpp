// SPDX-License-Identifier: BSD-3-Clause
// How a Value's 64 bits are used; only Arena's own files include this.
#pragma once

#include <cstdint>

#include "base/fail.hpp"
#include "pickle/value.hpp"

namespace cairn::pickle {

constexpr std::uint64_t kInline = 0x100;  // payload in the handle instead of an index
constexpr int kPayloadShift = 9;
constexpr int kConstructBits = 2;             // an object's handle holds its Construct below its index
constexpr Value kNoState{0xff};               // no kind: an object without state
constexpr std::uint64_t kOutsideMark = 0xfd;  // no kind: outside_value()
constexpr std::uint64_t kItemsMark = 0xfe;    // no kind: the object's state is with its items

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
