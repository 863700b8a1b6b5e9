// SPDX-License-Identifier: BSD-3-Clause
// Patterns over names, as Python's fnmatch.fnmatchcase() has them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

/// `*` any text, dots included; `?` one character; `[seq]`, `[!seq]` one character in or not in seq, with
/// ranges a-z; a `]` directly after `[` or `[!` is meant literally; a `[` without `]` and everything else,
/// the backslash too, stands for itself. A character is a Unicode code point, or a byte that is no valid
/// UTF-8. Every text is a pattern. Matching takes at most time proportional to name times pattern.
class Glob {
 public:
  explicit Glob(std::string pattern);

  /// The whole name, case-sensitive.
  bool matches(std::string_view name) const;
  const std::string& pattern() const { return pattern_; }

 private:
  struct Part {
    enum class Kind : std::uint8_t { text, any, one, set } kind;
    std::string text;
    std::vector<std::pair<char32_t, char32_t>> ranges;
    bool negated = false;
  };

  void add_text(std::string_view text);
  std::size_t add_set(std::string_view rest);
  static std::size_t skip_to(const Part& part, std::string_view name, std::size_t at);
  static bool take(const Part& part, std::string_view name, std::size_t& at);

  std::string pattern_;
  std::vector<Part> parts_;
};

}  // namespace cairn
