// SPDX-License-Identifier: BSD-3-Clause
#include "engine/content_sequence.hpp"

#include <algorithm>

namespace cairn {
namespace {

constexpr std::uint64_t kAlignment = 64;

}  // namespace

ContentSequence::ContentSequence(const std::vector<RecordContent>& contents) : starts_{0} {
  for (const RecordContent& content : contents) {
    sizes_.push_back(content.bytes);
    // an empty record has an extent too: some window holds it
    const std::uint64_t room = std::max(content.bytes, std::uint64_t{1});
    starts_.push_back(starts_.back() + (room + kAlignment - 1) / kAlignment * kAlignment);
  }
}

}  // namespace cairn
