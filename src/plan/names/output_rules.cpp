// SPDX-License-Identifier: BSD-3-Clause
#include "plan/names/output_rules.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/text.hpp"

namespace cairn {
namespace {

// Takes text up to an `end` without backslash, which is taken too; escapes are resolved.
class EscapedText {
 public:
  explicit EscapedText(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ == text_.size(); }
  std::size_t position() const { return at_ + 1; }
  bool ended_by_separator() const { return separated_; }

  std::string take_until(char end) {
    std::string out;
    for (separated_ = false; at_ < text_.size(); ++at_) {
      if (text_[at_] == end) {
        separated_ = true;
        ++at_;
        break;
      }
      if (text_[at_] == '\\') skip_backslash();
      out += text_[at_];
    }
    return out;
  }

 private:
  void skip_backslash() {
    ++at_;
    if (at_ == text_.size() || std::string_view(":,\\").find(text_[at_]) == std::string_view::npos) {
      fail(ErrorKind::invalid_argument, "position {}: ':', ',' or a backslash expected after a backslash",
           at_);
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool separated_ = false;
};

void require_value(std::string_view key, std::string_view value) {
  if (value.empty()) fail(ErrorKind::invalid_argument, "{}=… expected", key);
}

void add_rule(OutputRules& out, std::string_view rule) {
  const auto equals = rule.find('=');
  const std::string_view key = rule.substr(0, equals);
  if (key == "unwrap") {
    if (equals != std::string_view::npos) fail(ErrorKind::invalid_argument, "unwrap takes no value");
    if (out.rules.unwrap) fail(ErrorKind::invalid_argument, "unwrap is given twice");
    out.rules.unwrap = true;
    return;
  }
  constexpr std::string_view kKeys[] = {"select", "exclude", "strip-prefix", "rename", "map", "cast"};
  if (std::ranges::find(kKeys, key) == std::end(kKeys)) {
    fail(ErrorKind::invalid_argument,
         "select, exclude, unwrap, strip-prefix, rename, map or cast expected, '{}' found", escape_name(key));
  }
  const std::string_view value = equals == std::string_view::npos ? "" : rule.substr(equals + 1);
  require_value(key, value);
  if (key == "select") {
    out.rules.select.emplace_back(std::string(value));
  } else if (key == "exclude") {
    out.rules.exclude.emplace_back(std::string(value));
  } else if (key == "strip-prefix") {
    out.rules.strip_prefix.push_back(parse_prefix(value));
  } else if (key == "rename") {
    out.rules.renames.push_back(parse_rename(value));
  } else if (key == "cast") {
    out.rules.casts.push_back(parse_cast(value));
  } else {
    if (out.map_file) fail(ErrorKind::invalid_argument, "map is given twice");
    out.map_file = value;
  }
}

OutputRules parse(std::string_view text) {
  EscapedText rest(text);
  OutputRules out;
  out.file = rest.take_until(':');
  if (out.file.empty()) fail(ErrorKind::invalid_argument, "FILE:RULES expected, the file is missing");
  if (!rest.ended_by_separator() || rest.at_end())
    fail(ErrorKind::invalid_argument, "FILE:RULES expected, the rules are missing");
  do {
    const std::size_t position = rest.position();
    const std::string rule = rest.take_until(',');
    with_context([&] { return fmt::format("rule '{}' at position {}", escape_name(rule), position); },
                 [&] { add_rule(out, rule); });
  } while (rest.ended_by_separator());
  return out;
}

}  // namespace

OutputRules parse_output_rules(std::string_view text) {
  return with_context([&] { return fmt::format("output '{}'", escape_name(text)); },
                      [&] { return parse(text); });
}

}  // namespace cairn
