// SPDX-License-Identifier: BSD-3-Clause
// What every rank must know to take part in a consolidation. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/metadata.hpp"
#include "formats/record_content.hpp"
#include "formats/torch_file/layout.hpp"
#include "plan/windows.hpp"

namespace cairn {

/// A file that all ranks write.
struct OutputPlan {
  std::string temporary_path;  ///< created by the coordinator, opened by all
  std::string archive_name;
  std::uint32_t alignment = 64;
  std::uint64_t pickle_bytes = 0;
  std::vector<RecordContent> contents;  ///< of data/0, data/1, …

  torch_file::Layout layout() const;
};

struct ConsolidationPlan {
  std::string directory;  ///< the source
  std::vector<OutputPlan> outputs;
  std::vector<WindowRun> finished;  ///< windows that an earlier run has written
  bool is_complete = false;         ///< the outputs are whole, by an earlier run

  /// Of the outputs, without their temporary paths.
  std::uint64_t hash() const;
  /// For the wire, together with the source's catalogue.
  std::vector<std::byte> encode(const Catalog& catalog) const;
  static ConsolidationPlan decode(std::span<const std::byte> bytes, Catalog& catalog);
};

std::vector<std::uint64_t> record_bytes(const std::vector<RecordContent>& contents);

}  // namespace cairn
