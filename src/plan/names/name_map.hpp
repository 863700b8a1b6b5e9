// SPDX-License-Identifier: BSD-3-Clause
// The file of `--map`: explicit names, old to new. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/keyed_hash.hpp"

namespace cairn {

/// One `old<TAB>new` a line, in names as `cairn ls` prints them: \t \n \r \\ \xNN stand for the bytes that it
/// escapes. Lines end with LF or CRLF; empty ones are skipped. No old and no new name occurs twice, and no
/// new name is empty.
class NameMap {
 public:
  struct Line {
    std::string from, to;
    std::size_t number;  ///< from 1
  };

  /// `file` is for messages. Throws corrupt with the line's number, and for a repeated name both numbers.
  static NameMap parse(std::string_view text, std::string_view file);

  std::span<const Line> lines() const { return table_->lines; }
  /// Index into lines().
  std::optional<std::uint32_t> find(std::string_view from) const;

 private:
  struct Table {
    std::vector<Line> lines;
    std::unordered_map<std::string_view, std::uint32_t, KeyedHash> by_old_name;
  };
  explicit NameMap(std::shared_ptr<const Table> table) : table_(std::move(table)) {}

  std::shared_ptr<const Table> table_;  // shared by copies, as views point into it
};

}  // namespace cairn
