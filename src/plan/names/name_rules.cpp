// SPDX-License-Identifier: BSD-3-Clause
#include "plan/names/name_rules.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "tensor/cast.hpp"

namespace cairn {
namespace {

std::string_view without_last_dot(std::string_view text) {
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

std::optional<DType> parse_target(std::string_view text) {
  const auto dtype = dtype_from_name(text);
  return dtype && is_cast_target(*dtype) ? dtype : std::nullopt;
}

}  // namespace

std::string parse_prefix(std::string_view text) {
  const std::string_view prefix = without_last_dot(text);
  if (prefix.empty())
    fail(ErrorKind::invalid_argument, "strip-prefix '{}': one component at least expected",
         escape_name(text));
  return std::string(prefix);
}

RenameRule parse_rename(std::string_view text) {
  if (std::ranges::count(text, '=') != 1) {
    fail(ErrorKind::invalid_argument,
         "rename '{}': FROM=TO with one '=' expected (a map file takes any name)", escape_name(text));
  }
  const auto equals = text.find('=');
  const std::string_view from = without_last_dot(text.substr(0, equals));
  const std::string_view to = without_last_dot(text.substr(equals + 1));
  if (from.empty())
    fail(ErrorKind::invalid_argument, "rename '{}': nothing stands before the '='", escape_name(text));
  if (to.empty()) {
    fail(ErrorKind::invalid_argument, "rename '{}': nothing stands after the '=' (strip-prefix removes '{}')",
         escape_name(text), escape_name(from));
  }
  return {std::string(from), std::string(to)};
}

CastRule parse_cast(std::string_view text) {
  const auto equals = text.rfind('=');
  const bool is_bare = equals == std::string_view::npos;
  const std::string_view type = is_bare ? text : text.substr(equals + 1);
  const auto to = parse_target(type);
  if (!to && (is_bare || type != "keep")) {
    fail(ErrorKind::invalid_argument,
         "cast '{}': '{}' is no type to cast to; float32, float16, bfloat16{} expected", escape_name(text),
         escape_name(type), is_bare ? "" : " or keep");
  }
  if (is_bare) return {std::nullopt, to, std::nullopt};
  return {Glob(std::string(text.substr(0, equals))), to, std::nullopt};
}

}  // namespace cairn
