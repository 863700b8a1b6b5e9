// SPDX-License-Identifier: BSD-3-Clause
// Works off units of a verification with the threads of one rank. Local.
#pragma once

#include <functional>

#include "cairn/storage.hpp"
#include "checkpoint/verify_items.hpp"
#include "checkpoint/verify_outcome.hpp"

namespace cairn {

/// Data buffers of one thread.
inline constexpr std::uint64_t kVerifyBytesPerThread = VerifyItems::kSmallBytes;

struct VerifyWork {
  bool strict = false;
  int threads = 1;
  /// Called about four times a second from the calling thread with the bytes read so far; may be empty.
  std::function<void(std::uint64_t)> progress;
};

/// Units [owned.begin, owned.end). Damage is found, not thrown; the first failure of the file system in any
/// thread stops all and is thrown.
VerifyOutcome check_units(FileSystem& files, const VerifyItems& items, ByteRange owned,
                          const VerifyWork& work);

}  // namespace cairn
