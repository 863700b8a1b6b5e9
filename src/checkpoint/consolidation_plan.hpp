// SPDX-License-Identifier: BSD-3-Clause
// What every rank must know to take part in a consolidation. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cairn/metadata.hpp"
#include "formats/record_content.hpp"
#include "formats/safetensors/files_layout.hpp"
#include "formats/torch_file/layout.hpp"
#include "formats/torch_file/state_pickle.hpp"
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

/// The shards of a DCP directory that all ranks write.
struct ShardPlan {
  std::string directory;
  Catalog catalog;                     ///< of what is written, with places
  std::vector<std::uint32_t> tensors;  ///< their indices in the source's catalogue
  std::vector<torch_file::StatePickle> objects;
};

/// The safetensors files that all ranks write: their data.
struct TensorFilesPlan {
  std::vector<safetensors::DataFile> files;  ///< created by the coordinator, opened by all
  std::vector<RecordContent> contents;       ///< of all files
};

enum class SourceKind : std::uint8_t { dcp, torch_file, safetensors, hf_dcp, merged };

struct ConsolidationPlan {
  SourceKind source_kind = SourceKind::dcp;
  std::string directory;                            ///< that the source's files lie in
  std::vector<OutputPlan> outputs;                  ///< or
  std::unique_ptr<ShardPlan> shards{};              ///< these, or
  std::unique_ptr<TensorFilesPlan> tensor_files{};  ///< these
  std::vector<WindowRun> finished;                  ///< windows that an earlier run has written
  bool is_complete = false;                         ///< the outputs are whole, by an earlier run

  /// Of the outputs, without their temporary paths; of shards without their catalogue.
  std::uint64_t hash() const;
  /// For the wire, together with the source as it encodes itself, which decode() leaves in `source`.
  std::vector<std::byte> encode(std::span<const std::byte> source) const;
  static ConsolidationPlan decode(std::span<const std::byte> bytes, std::span<const std::byte>& source);
};

std::vector<std::uint64_t> record_bytes(const std::vector<RecordContent>& contents);

}  // namespace cairn
