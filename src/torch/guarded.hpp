// SPDX-License-Identifier: BSD-3-Clause
// The border between libtorch's exceptions and Cairn's.
#pragma once

#include <c10/util/Exception.h>

#include <stdexcept>
#include <string_view>

#include "base/fail.hpp"
#include "base/text.hpp"

namespace cairn {

/// Runs `body`; what libtorch throws becomes an io Error with its first line, about the tensor `name`.
template <class Body>
decltype(auto) guarded(std::string_view name, Body&& body) {
  try {
    return body();
  } catch (const c10::Error& error) {
    const std::string_view text = error.what_without_backtrace();
    fail(ErrorKind::io, "'{}': libtorch: {}", escape_name(name), text.substr(0, text.find('\n')));
  } catch (const std::runtime_error& error) {
    fail(ErrorKind::io, "'{}': libtorch: {}", escape_name(name), error.what());
  }
}

}  // namespace cairn
