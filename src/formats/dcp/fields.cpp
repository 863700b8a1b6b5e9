// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/fields.hpp"

#include <fmt/format.h>

#include "formats/dcp/metadata_store.hpp"

namespace cairn::dcp {

using pickle::Kind;

namespace {

constexpr std::size_t kMaxFields = 64;

}  // namespace

bool is_instance(const Arena& arena, Value value, std::string_view class_name) {
  if (value.kind() != Kind::object) return false;
  const Value callable = arena.object_view(value).callable;
  if (callable.kind() != Kind::global) return false;
  const auto name = arena.global_name(callable);
  return name.name == class_name && name.module.starts_with("torch.distributed.");
}

std::optional<Value> field(const Arena& arena, Value value, std::string_view name) {
  if (value.kind() != Kind::object) return std::nullopt;
  const auto state = arena.object_view(value).state;
  if (!state || state->kind() != Kind::dict) return std::nullopt;
  // one dict may be the state of very many instances
  if (arena.items(*state).size() > 2 * kMaxFields) return std::nullopt;
  return arena.find(*state, name);
}

bool read_size(const Arena& arena, Value value, std::vector<std::int64_t>& out) {
  out.clear();
  if (value.kind() == Kind::object) {
    const auto view = arena.object_view(value);
    if (!arena.is_global(view.callable, "torch", "Size") || view.args.kind() != Kind::tuple) return false;
    const auto args = arena.items(view.args);
    if (args.empty()) return true;
    if (args.size() != 1) return false;
    value = args[0];
  }
  if (value.kind() != Kind::tuple && value.kind() != Kind::list) return false;
  for (const Value item : arena.items(value)) {
    if (item.kind() != Kind::integer) return false;
    out.push_back(arena.as_integer(item));
  }
  return true;
}

std::string_view dtype_name(const Arena& arena, Value value) {
  if (value.kind() != Kind::global) return {};
  const auto name = arena.global_name(value);
  return name.module == "torch" ? name.name : std::string_view{};
}

std::string describe(const Arena& arena, Value value) {
  switch (value.kind()) {
    case Kind::none:
      return "None";
    case Kind::boolean:
      return "a bool";
    case Kind::integer:
    case Kind::big_integer:
      return "an int";
    case Kind::real:
      return "a float";
    case Kind::string:
      return "a str";
    case Kind::bytes:
    case Kind::bytearray:
      return "bytes";
    case Kind::tuple:
      return "a tuple";
    case Kind::list:
      return "a list";
    case Kind::dict:
      return "a dict";
    case Kind::set:
    case Kind::frozenset:
      return "a set";
    case Kind::persistent:
      return "a persistent id";
    case Kind::row:
      return fmt::format("an instance of {}", class_name(MetadataStore::row_class(value)));
    case Kind::global: {
      const auto name = arena.global_name(value);
      return fmt::format("{}.{}", name.module, name.name);
    }
    case Kind::object: {
      const Value callable = arena.object_view(value).callable;  // may itself be an object, and so on
      return "an instance of " +
             (callable.kind() == Kind::object ? "a made class" : describe(arena, callable));
    }
  }
  return "a value";
}

}  // namespace cairn::dcp
