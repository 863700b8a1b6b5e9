// SPDX-License-Identifier: BSD-3-Clause
// The small records of a torch file: data.pkl, head_records(), data/0 …, version, the serialization id
// (docs/format-torch-file.md). Names without the archive's. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::torch_file {

inline constexpr std::string_view kPickleRecord = "data.pkl", kVersionRecord = "version",
                                  kIdRecord = ".data/serialization_id";
inline constexpr std::string_view kVersion = "3\n";
inline constexpr std::size_t kIdDigits = 40;

struct SmallRecord {
  std::string_view name;
  std::string content;
};

inline std::array<SmallRecord, 3> head_records(std::uint32_t alignment) {
  return {
      {{".format_version", "1"}, {".storage_alignment", std::to_string(alignment)}, {"byteorder", "little"}}};
}

}  // namespace cairn::torch_file
