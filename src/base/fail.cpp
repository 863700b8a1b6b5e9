// SPDX-License-Identifier: BSD-3-Clause
#include "base/fail.hpp"

#include <cerrno>
#include <system_error>

namespace cairn {

void fail_io(std::string_view operation, std::string_view path, int error_number) {
  const auto kind = error_number == ENOENT || error_number == ENOTDIR ? ErrorKind::not_found
                    : error_number == EEXIST                          ? ErrorKind::already_exists
                                                                      : ErrorKind::io;
  fail(kind, "{}: {} failed: {}", path, operation, std::generic_category().message(error_number));
}

}  // namespace cairn
