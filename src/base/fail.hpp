// SPDX-License-Identifier: BSD-3-Clause
// Short ways to throw cairn::Error with a formatted message.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "cairn/error.hpp"

namespace cairn {

template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(kind, fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void fail_corrupt(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::corrupt, fmt::format(text, std::forward<Args>(args)...));
}

/// Runs `body`; an Error that leaves it carries `context()` in front. `context` is only called on failure.
template <class Context, class Body>
decltype(auto) with_context(Context&& context, Body&& body) {
  try {
    return body();
  } catch (Error& error) {
    error.add_context(context());
    throw;
  }
}

/// Throws io with the operation, the path and the text of `error_number` (an errno value).
[[noreturn]] void fail_io(std::string_view operation, std::string_view path, int error_number);

}  // namespace cairn
