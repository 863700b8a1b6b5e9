// SPDX-License-Identifier: BSD-3-Clause
// Row: pickle. Objects: values of a state that are no tensors. Local, pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

/// What Python's None, bool, int, float, str, bytes, list, tuple and dict are. Whatever else a checkpoint
/// holds (an int beyond 64 bits, a numpy array, a tuple with tensors, an instance of a class) is loaded as
/// Stored, and can be saved again.
class Object {
 public:
  using List = std::vector<Object>;
  struct Tuple {
    std::vector<Object> items;
    friend bool operator==(const Tuple&, const Tuple&) = default;
  };
  struct Dict {
    std::vector<std::pair<Object, Object>> items;  ///< in Python's order, that of insertion
    friend bool operator==(const Dict&, const Dict&) = default;
  };
  struct Data {  ///< Python's bytes
    std::vector<std::byte> bytes;
    friend bool operator==(const Data&, const Data&) = default;
  };
  struct Stored {  ///< what torch.save made of a value, byte for byte; nothing in it is executed
    std::vector<std::byte> bytes;
    friend bool operator==(const Stored&, const Stored&) = default;
  };
  using Variant =
      std::variant<std::monostate, bool, std::int64_t, double, std::string, Data, List, Tuple, Dict, Stored>;

  Object() = default;                                      ///< None
  Object(bool value) : value_(value) {}                    // NOLINT: they are what they hold
  Object(int value) : value_(std::int64_t{value}) {}       // NOLINT
  Object(std::int64_t value) : value_(value) {}            // NOLINT
  Object(double value) : value_(value) {}                  // NOLINT
  Object(const char* utf8) : value_(std::string(utf8)) {}  // NOLINT
  Object(std::string utf8) : value_(std::move(utf8)) {}    // NOLINT
  Object(Data value) : value_(std::move(value)) {}         // NOLINT
  Object(List value) : value_(std::move(value)) {}         // NOLINT
  Object(Tuple value) : value_(std::move(value)) {}        // NOLINT
  Object(Dict value) : value_(std::move(value)) {}         // NOLINT
  Object(Stored value) : value_(std::move(value)) {}       // NOLINT

  const Variant& value() const { return value_; }
  bool is_none() const { return value_.index() == 0; }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(value_);
  }
  /// The value; std::bad_variant_access when it is something else.
  template <class T>
  const T& as() const {
    return std::get<T>(value_);
  }

  /// By value; floats by their bits, so that NaN equals itself.
  friend bool operator==(const Object& a, const Object& b);

 private:
  Variant value_;
};

}  // namespace cairn
