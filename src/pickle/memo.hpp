// SPDX-License-Identifier: BSD-3-Clause
// The memo of a pickle being read: values by number. A large `.metadata` fills millions of slots, most of
// them never asked for: a slot has 4 bytes until a handle comes that needs 8.
#pragma once

#include "base/pool.hpp"
#include "pickle/handle.hpp"

namespace cairn::pickle {

constexpr Value kNothing{~std::uint64_t{0}};  // an unused slot

// The one-element tuple of a tuple that was the argument of a call, made only if it is fetched.
constexpr std::uint64_t kArgumentTuple = 30;  // no kind
inline Value argument_tuple(Value tuple) { return {(tuple.bits & ~std::uint64_t{0xff}) | kArgumentTuple}; }
inline bool is_argument_tuple(Value slot) { return (slot.bits & 0xff) == kArgumentTuple; }
inline Value the_argument(Value slot) {
  return {(slot.bits & ~std::uint64_t{0xff}) | static_cast<std::uint64_t>(Kind::tuple)};
}

class Memo {
 public:
  std::size_t size() const { return is_wide_ ? wide_.size() : narrow_.size(); }
  Value operator[](std::size_t index) const { return is_wide_ ? wide_[index] : widened(narrow_[index]); }

  void add(Value value) {
    if (!is_wide_ && !is_narrow(value)) [[unlikely]]
      widen();
    if (is_wide_) return wide_.push(value);
    narrow_.push(narrowed(value));
  }
  /// At `index`, which may be beyond the end: slots between are unused.
  void put(std::size_t index, Value value) {
    if (!is_wide_ && !is_narrow(value)) widen();
    if (is_wide_) {
      put(wide_, index, value, kNothing);
    } else {
      put(narrow_, index, narrowed(value), kNarrowNothing);
    }
  }

 private:
  static constexpr std::uint32_t kNarrowNothing = ~std::uint32_t{0};
  static constexpr int kNarrowShift = 6;  // below it 5 bits of the kind and the one of an inline payload
  static constexpr std::uint64_t kNarrowKinds = 31;

  static bool is_narrow(Value value) {
    return (value.bits & 0xff) < kNarrowKinds && index_of(value) < std::uint64_t{1} << (32 - kNarrowShift);
  }
  static std::uint32_t narrowed(Value value) {
    return static_cast<std::uint32_t>((value.bits & 31) | (is_inline(value) ? 32U : 0U) |
                                      index_of(value) << kNarrowShift);
  }
  static Value widened(std::uint32_t slot) {
    if (slot == kNarrowNothing) return kNothing;
    return {(slot & 31U) | ((slot & 32U) != 0 ? kInline : 0) |
            static_cast<std::uint64_t>(slot >> kNarrowShift) << kPayloadShift};
  }

  template <class T>
  static void put(Pool<T>& slots, std::size_t index, T value, T nothing) {
    while (slots.size() < index) slots.push(nothing);
    if (slots.size() == index) return slots.push(value);
    slots[index] = value;
  }
  [[gnu::noinline]] void widen() {
    wide_.extend(narrow_.size());
    for (std::size_t i = 0; i < narrow_.size(); ++i) wide_[i] = widened(narrow_[i]);
    Pool<std::uint32_t>().swap(narrow_);
    is_wide_ = true;
  }

  Pool<std::uint32_t> narrow_;
  Pool<Value> wide_;
  bool is_wide_ = false;
};

}  // namespace cairn::pickle
