// SPDX-License-Identifier: BSD-3-Clause
#include "plan/names/glob.hpp"

#include <algorithm>

namespace cairn {
namespace {

struct Character {
  char32_t code;
  std::size_t length;
};

// The character at the front of a text that is not empty. A byte that is no valid UTF-8 is one by itself,
// with a code of Python's surrogateescape.
Character front(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  const Character invalid{char32_t{0xdc00} + first, 1};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return invalid;
  char32_t code = first & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return invalid;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return invalid;
  return {code, length};
}

}  // namespace

Glob::Glob(std::string pattern) : pattern_(std::move(pattern)) {
  std::string_view rest = pattern_;
  while (!rest.empty()) {
    std::size_t used = 1;
    if (rest[0] == '*') {
      if (parts_.empty() || parts_.back().kind != Part::Kind::any)
        parts_.push_back({Part::Kind::any, {}, {}});
    } else if (rest[0] == '?') {
      parts_.push_back({Part::Kind::one, {}, {}});
    } else if (rest[0] == '[') {
      used = add_set(rest);
    } else {
      used = std::min(rest.find_first_of("*?["), rest.size());
      add_text(rest.substr(0, used));
    }
    rest.remove_prefix(used);
  }
}

void Glob::add_text(std::string_view text) {
  if (parts_.empty() || parts_.back().kind != Part::Kind::text) parts_.push_back({Part::Kind::text, {}, {}});
  parts_.back().text += text;
}

// Returns how much of the pattern the set takes.
std::size_t Glob::add_set(std::string_view rest) {
  const bool negated = rest.size() > 1 && rest[1] == '!';
  const std::size_t begin = negated ? 2 : 1, end = rest.find(']', begin + 1);
  if (end == std::string_view::npos) {
    add_text("[");
    return 1;
  }
  Part set{Part::Kind::set, {}, {}, negated};
  std::vector<char32_t> codes;
  for (std::string_view text = rest.substr(begin, end - begin); !text.empty();) {
    const Character character = front(text);
    codes.push_back(character.code);
    text.remove_prefix(character.length);
  }
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const bool is_range = i + 2 < codes.size() && codes[i + 1] == U'-';
    set.ranges.emplace_back(codes[i], codes[is_range ? i + 2 : i]);
    if (is_range) i += 2;
  }
  parts_.push_back(std::move(set));
  return end + 1;
}

// Takes what the part (other than any) stands for from the name; false when it is not there.
bool Glob::take(const Part& part, std::string_view name, std::size_t& at) {
  if (part.kind == Part::Kind::text) {
    if (!name.substr(at).starts_with(part.text)) return false;
    at += part.text.size();
    return true;
  }
  if (at == name.size()) return false;
  const auto [code, length] = front(name.substr(at));
  if (part.kind == Part::Kind::set) {
    const bool found = std::ranges::any_of(
        part.ranges, [c = code](const auto& range) { return range.first <= c && c <= range.second; });
    if (found == part.negated) return false;
  }
  at += length;
  return true;
}

// Where the part may match next. A text that does not begin within a character is never found within one.
std::size_t Glob::skip_to(const Part& part, std::string_view name, std::size_t at) {
  if (part.kind != Part::Kind::text || (part.text[0] & 0xc0) == 0x80) return at;
  return std::min(name.find(part.text, at), name.size());
}

bool Glob::matches(std::string_view name) const {
  if (!parts_.empty() && parts_.back().kind == Part::Kind::text && !name.ends_with(parts_.back().text))
    return false;
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t at = 0, part = 0, star = kNone, star_at = 0;  // the last `any` seen, and where it ends so far
  while (part < parts_.size() || at < name.size()) {
    if (part < parts_.size() && parts_[part].kind == Part::Kind::any) {
      star = part++;
      if (part == parts_.size()) return true;
      const Part& next = parts_[part];  // the end of the name is known to be right already
      if (part + 1 == parts_.size() && next.kind == Part::Kind::text)
        return name.size() - at >= next.text.size();
      at = star_at = skip_to(parts_[part], name, at);
    } else if (part < parts_.size() && take(parts_[part], name, at)) {
      ++part;
    } else if (star != kNone && star_at < name.size()) {
      star_at += front(name.substr(star_at)).length;
      at = star_at = skip_to(parts_[star + 1], name, star_at);
      part = star + 1;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace cairn
