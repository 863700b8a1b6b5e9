// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/object_parts.hpp"

#include <algorithm>
#include <charconv>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "plan/names/glob.hpp"

namespace cairn {
namespace {

std::string key_text(const Object& key) {
  if (key.is<std::string>()) return key.as<std::string>();
  return key.is<std::int64_t>() ? std::to_string(key.as<std::int64_t>()) : std::string();
}

const Object* find_below(const Object& value, std::string_view step, std::string_view path) {
  if (path == step) return &value;
  const bool is_below = path.starts_with(step) && path[step.size()] == '.';
  return is_below ? find_part(value, path.substr(step.size() + 1)) : nullptr;
}

const Object* find_in_list(const std::vector<Object>& items, std::string_view path) {
  std::size_t at = 0;
  const auto end = std::from_chars(path.data(), path.data() + path.size(), at);
  if (end.ec != std::errc() || at >= items.size()) return nullptr;
  return find_below(items[at], std::to_string(at), path);
}

}  // namespace

const Object* find_part(const Object& whole, std::string_view path) {
  if (whole.is<Object::List>()) return find_in_list(whole.as<Object::List>(), path);
  if (whole.is<Object::Tuple>()) return find_in_list(whole.as<Object::Tuple>().items, path);
  if (!whole.is<Object::Dict>()) return nullptr;
  for (const auto& [key, value] : whole.as<Object::Dict>().items) {
    if (const Object* found = find_below(value, key_text(key), path)) return found;
  }
  return nullptr;
}

const Object* ObjectParts::find(const Object& whole, const ObjectRead& read) {
  if (read.path_at == 0) return &whole;
  const std::string_view name = state_.name(read.entry);
  const Object* part = find_part(whole, name.substr(read.path_at));
  if (part == nullptr) missing_.emplace_back(name);
  return part;
}

std::vector<std::string> ObjectParts::take_missing(const std::string& path) {
  std::vector<Glob> allowed;
  for (const std::string& pattern : options_.allow_missing) allowed.emplace_back(pattern);
  LoadVerdict verdict;
  for (const std::string& name : missing_) {
    const auto matches = [&](const Glob& glob) { return glob.matches(name); };
    if (!options_.strict || std::ranges::any_of(allowed, matches)) continue;
    verdict.faults.push_back(
        {LoadFaultKind::missing, name,
         fmt::format("'{}' is neither in the checkpoint nor a part of an object in it", escape_name(name))});
  }
  try {
    verdict.throw_if_any();
  } catch (Error& error) {
    error.add_context(path);
    throw;
  }
  return std::move(missing_);
}

}  // namespace cairn
