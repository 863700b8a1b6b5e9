// SPDX-License-Identifier: BSD-3-Clause
// What this machine gives, without a format in between: the bounds that cairn bench prints. Local.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/storage.hpp"

namespace cairn {

enum class RawWorkload : std::uint8_t {
  memcpy,  ///< memory to memory, beyond the caches
  crc,     ///< CRC-32 of memory, in pieces
  read,    ///< a file in the page cache into reused buffers
  write,   ///< into an allocated new file, not synced
  copy,    ///< file to file, read and written in pieces
};

std::optional<RawWorkload> raw_workload(std::string_view name);

struct RawOptions {
  std::uint64_t bytes = 1ull << 30;
  std::uint64_t piece_bytes = 1 << 20;
  int threads = 1;
  std::string directory = ".";  ///< where read, write and copy make their files; removed afterwards
};

/// Seconds of one run of the workload, its preparation not counted. Throws io when the files cannot be made.
double run_raw(FileSystem& files, RawWorkload workload, const RawOptions& options);

}  // namespace cairn
