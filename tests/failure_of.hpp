// SPDX-License-Identifier: BSD-3-Clause
// The Error that a piece of code throws, for tests that look at its parts.
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "cairn/error.hpp"

namespace cairn {

/// Fails the test when nothing is thrown. Other exceptions pass through.
template <class Body>
Error failure_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorKind::io, "");
}

inline bool contains(const Error& error, std::string_view text) {
  return std::string_view(error.what()).find(text) != std::string_view::npos;
}

}  // namespace cairn
