// SPDX-License-Identifier: BSD-3-Clause
// A value may be in many places of a pickle, and is looked at or copied for each. Real metadata do so with
// far less than their values take.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/fail.hpp"

namespace cairn::dcp {

class CopyBudget {
 public:
  /// `where` must outlive this object.
  CopyBudget(std::uint64_t values, std::string_view where) : left_(values), where_(where) {}

  /// Throws corrupt when more values have been charged than allowed.
  void charge(std::uint64_t values) {
    if (values > left_) fail_corrupt("{}: shared values make up more than they can mean", where_);
    left_ -= values;
  }

 private:
  std::uint64_t left_;
  std::string_view where_;
};

}  // namespace cairn::dcp
