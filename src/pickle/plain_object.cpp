// SPDX-License-Identifier: BSD-3-Clause
#include "pickle/plain_object.hpp"

#include <bit>

#include "base/fail.hpp"
#include "pickle/utf8.hpp"

namespace cairn {

bool operator==(const Object& a, const Object& b) {
  if (const double* x = std::get_if<double>(&a.value_)) {
    const double* y = std::get_if<double>(&b.value_);
    return y != nullptr && std::bit_cast<std::uint64_t>(*x) == std::bit_cast<std::uint64_t>(*y);
  }
  return a.value_ == b.value_;
}

namespace pickle {
namespace {

constexpr int kMaxDepth = 1000;

std::string_view as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Adder {
 public:
  explicit Adder(Arena& arena) : arena_(arena) {}

  Value add(const Object& object) {
    if (++depth_ > kMaxDepth) fail(ErrorKind::invalid_argument, "object: more than {} levels", kMaxDepth);
    const Value value = std::visit(*this, object.value());
    --depth_;
    return value;
  }

  Value operator()(std::monostate) { return arena_.none(); }
  Value operator()(bool value) { return arena_.boolean(value); }
  Value operator()(std::int64_t value) { return arena_.integer(value); }
  Value operator()(double value) { return arena_.real(value); }
  Value operator()(const std::string& text) {
    if (!valid_utf8(text)) fail(ErrorKind::invalid_argument, "object: a text is no UTF-8");
    return arena_.string(text);
  }
  Value operator()(const Object::Data& data) { return arena_.bytes(as_text(data.bytes)); }
  Value operator()(const Object::List& list) {
    const Value out = arena_.list();
    for (const Object& item : list) arena_.append(out, add(item));
    return out;
  }
  Value operator()(const Object::Tuple& tuple) {
    std::vector<Value> items;
    items.reserve(tuple.items.size());
    for (const Object& item : tuple.items) items.push_back(add(item));
    return arena_.tuple(items);
  }
  Value operator()(const Object::Dict& dict) {
    const Value out = arena_.dict();
    for (const auto& [key, item] : dict.items) {
      const Value name = add(key);
      arena_.set_item(out, name, add(item));
    }
    return out;
  }
  Value operator()(const Object::Stored&) {
    fail(ErrorKind::invalid_argument, "object: a stored item inside another object");
  }

 private:
  Arena& arena_;
  int depth_ = 0;
};

// Throws Unsayable; a value that contains itself runs into the limit of depth.
class Taker {
 public:
  struct Unsayable {};

  Taker(const Arena& arena, std::size_t budget) : arena_(arena), budget_(budget) {}

  Object take(Value value) {
    spend(1);
    if (depth_ == kMaxDepth) throw Unsayable{};
    ++depth_;
    Object out = taken(value);
    --depth_;
    return out;
  }

 private:
  Object taken(Value value) {
    switch (value.kind()) {
      case Kind::none:
        return {};
      case Kind::boolean:
        return arena_.as_boolean(value);
      case Kind::integer:
        return arena_.as_integer(value);
      case Kind::real:
        return arena_.as_real(value);
      case Kind::string:
        return std::string(text(value));
      case Kind::bytes: {
        const auto bytes = std::as_bytes(std::span(text(value)));
        return Object::Data{{bytes.begin(), bytes.end()}};
      }
      case Kind::list:
        return items(value);
      case Kind::tuple:
        return Object::Tuple{items(value)};
      case Kind::dict:
        return dict(value);
      default:
        throw Unsayable{};
    }
  }
  std::string_view text(Value value) {
    const std::string_view text = arena_.text(value);
    spend(text.size());
    return text;
  }
  Object::List items(Value value) {
    Object::List out;
    for (const Value item : arena_.items(value)) out.push_back(take(item));
    return out;
  }
  Object dict(Value value) {
    Object::Dict out;
    const auto items = arena_.items(value);
    for (std::size_t i = 0; i < items.size(); i += 2) {
      Object key = take(items[i]);
      out.items.emplace_back(std::move(key), take(items[i + 1]));
    }
    return out;
  }
  void spend(std::size_t cost) {
    if (cost > budget_) throw Unsayable{};
    budget_ -= cost;
  }

  const Arena& arena_;
  std::size_t budget_;
  int depth_ = 0;
};

}  // namespace

Value add_object(Arena& arena, const Object& object) { return Adder(arena).add(object); }

std::optional<Object> to_object(const Arena& arena, Value value, std::size_t pickle_bytes) {
  constexpr std::size_t kTimesThePickle = 16;
  try {
    return Taker(arena, 4096 + kTimesThePickle * pickle_bytes).take(value);
  } catch (const Taker::Unsayable&) {
    return std::nullopt;
  }
}

}  // namespace pickle
}  // namespace cairn
