// SPDX-License-Identifier: BSD-3-Clause
#include "pickle/fold.hpp"

#include "base/fail.hpp"
#include "pickle/utf8.hpp"

namespace cairn::pickle {
namespace {

void charge(std::size_t& copies_left, std::size_t count) {
  if (count > copies_left) fail_corrupt("more values than the pickle holds, by repetition");
  copies_left -= count;
}

std::optional<Value> fold_encode(Arena& arena, std::span<const Value> args, std::size_t& copies_left) {
  if (args.size() != 2 || args[0].kind() != Kind::string || args[1].kind() != Kind::string) return {};
  const std::string_view text = arena.text(args[0]);
  if (text.empty() || arena.text(args[1]) != "latin1") return {};
  charge(copies_left, text.size());
  const auto bytes = utf8_to_latin1(text);
  if (!bytes) fail_corrupt("latin1 bytes with a character above U+00FF");
  arena.latin1(args[1]);
  return arena.bytes(*bytes);
}

std::optional<Value> fold_bytearray(Arena& arena, std::span<const Value> args, std::size_t& copies_left) {
  if (args.empty()) return arena.bytearray({});
  if (args.size() != 1 || args[0].kind() != Kind::bytes || arena.text(args[0]).empty()) return {};
  charge(copies_left, arena.text(args[0]).size());
  return arena.bytearray(arena.text(args[0]));
}

std::optional<Value> fold_set(Arena& arena, std::span<const Value> args, bool frozen,
                              std::size_t& copies_left) {
  if (args.size() != 1 || args[0].kind() != Kind::list) return {};
  const auto items = arena.items(args[0]);
  charge(copies_left, items.size());
  if (frozen) return arena.frozenset(items);
  const Value list = args[0];  // set() may move args
  const Value set = arena.set();
  arena.append_all(set, arena.items(list));
  return set;
}

}  // namespace

std::optional<Value> fold_call(Arena& arena, Value callable, Value args, std::size_t& copies_left) {
  if (callable.kind() != Kind::global) return {};
  const auto [module, name] = arena.global_name(callable);
  const auto items = arena.items(args);
  if (module == "_codecs" && name == "encode") return fold_encode(arena, items, copies_left);
  if (module != "builtins") return {};
  if (name == "bytes" && items.empty()) return arena.bytes({});
  if (name == "bytearray") return fold_bytearray(arena, items, copies_left);
  if (name == "set" || name == "frozenset") return fold_set(arena, items, name == "frozenset", copies_left);
  return {};
}

}  // namespace cairn::pickle
