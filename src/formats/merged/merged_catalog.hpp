// SPDX-License-Identifier: BSD-3-Clause
// One catalogue made of others. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/metadata.hpp"

namespace cairn {

class MergedCatalog {
 public:
  /// Another catalogue that entries come from, and its files, each under `prefix` ("model/"). Returns its
  /// number, from 0. It outlives the merging.
  std::uint32_t add_part(const Catalog& part, std::string_view prefix = {});

  /// An entry of a part as it is.
  void add(std::uint32_t part, const Entry& entry);
  /// Its path with `front` in place of the first step; a name that is no path is one step. The name follows
  /// the path.
  void add(std::uint32_t part, const Entry& entry, std::span<const PathStep> front);
  /// Its path under `front`.
  void add_under(std::uint32_t part, const Entry& entry, std::span<const PathStep> front);

  /// A key for `front`; the same for the same text, of which there are few.
  PathStep key(std::string_view text);

  /// What a path of a part's begins with; the name where it has none.
  static std::string_view first_key(const Catalog& part, const Entry& entry);

  /// Where a tensor or object came from: its index there.
  struct Origin {
    std::uint32_t part, index;
  };
  static constexpr StringId kNoString = 0xffffffff;
  struct Made {
    Catalog catalog;
    std::vector<Origin> tensors, objects;
    std::vector<std::uint32_t> first_files;      ///< of each part: its first file in the catalogue
    std::vector<std::vector<StringId>> strings;  ///< of each part: what its strings are there, or kNoString
  };
  Made take() { return std::move(made_); }

 private:
  StringId string(std::uint32_t part, StringId id);
  PathStep step(std::uint32_t part, PathStep stored);
  StringId name_of(std::uint32_t part, const Entry& entry) const;
  void add_replacing(std::uint32_t part, const Entry& entry, std::span<const PathStep> front,
                     std::size_t replaced);
  void append(std::uint32_t part, const Entry& entry, StringId name);

  std::vector<const Catalog*> parts_;
  Made made_;
  std::vector<std::pair<std::string, StringId>> keys_;
  std::vector<PathStep> path_;  // of the entry that is added
};

}  // namespace cairn
