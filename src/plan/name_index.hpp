// SPDX-License-Identifier: BSD-3-Clause
// Names to numbers. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace cairn {

/// Gives each name a number, in order of first appearance. Names are views that outlive the index; of a name
/// asked for after the one before it in number, nothing is hashed. For one thread.
class NameIndex {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  void reserve(std::size_t count);
  /// The number of `name`, which is added when it is new: then it equals the size before.
  std::uint32_t add(std::string_view name);
  /// kNone when there is none.
  std::uint32_t find(std::string_view name) const;

  std::size_t size() const { return names_.size(); }
  std::string_view operator[](std::uint32_t number) const { return names_[number]; }

 private:
  struct Slot {
    std::uint32_t number = kNone, tag = 0;  // tag: its hash
  };
  std::size_t slot_of(std::string_view name, std::uint32_t tag) const;
  void grow(std::size_t count);

  std::vector<std::string_view> names_;
  std::vector<Slot> slots_;         // a power of two, at most half of them taken
  mutable std::uint32_t next_ = 0;  // what is likely to be asked for next
};

}  // namespace cairn
