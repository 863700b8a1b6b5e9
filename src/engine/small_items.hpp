// SPDX-License-Identifier: BSD-3-Clause
// Reads the small items that a window needs, neighbours together. Local; one object per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "formats/source.hpp"
#include "plan/merged_read.hpp"

namespace cairn {

/// Between two items that are read together: what is cheaper to read than to skip.
inline constexpr std::uint64_t kMaxItemGap = 16 << 10;
/// Of one read: enough to forget the call, little enough to stay in a core's cache until it is copied.
inline constexpr std::uint64_t kMaxMergedBytes = 256 << 10;

class SmallItems {
 public:
  struct Wanted {
    FileRange item;
    std::uint64_t chunk;
    std::uint32_t tensor;  ///< index into catalog().tensors()
    std::uint32_t part;    ///< the caller's
  };
  using Visit = std::function<void(const Wanted&, std::span<const std::byte> item)>;

  /// `buffer` takes one read; it holds the source's largest small item at least.
  SmallItems(Source& source, std::span<std::byte> buffer) : source_(source), buffer_(buffer) {}

  void want(const Wanted& wanted) { wanted_.push_back(wanted); }

  /// Gives each chunk wanted since the last call once for each part, in file order, with the bytes of its
  /// item; they are there during the visit. Where a read of several items fails, each is read alone: the
  /// Error names the tensor whose item it was.
  void visit_all(const Visit& visit);

 private:
  void visit_alone(const Wanted& wanted, const Visit& visit);

  Source& source_;
  std::span<std::byte> buffer_;
  std::vector<Wanted> wanted_;
  std::vector<FileRange> ranges_;  // of wanted_
};

}  // namespace cairn
