// SPDX-License-Identifier: BSD-3-Clause
// What is read when it goes into several outputs: the contents of all of them, each once, as the region of an
// output that nobody writes. Windows are cut from it. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cairn/metadata.hpp"
#include "formats/output_layout.hpp"
#include "formats/record_content.hpp"

namespace cairn {

class ContentSequence final : public OutputLayout {
 public:
  /// Payloads begin at multiples of 64, so that no element is cut by a window.
  explicit ContentSequence(const std::vector<RecordContent>& contents);

  std::uint64_t record_count() const override { return sizes_.size(); }
  ByteRange region() const override { return {0, starts_.back()}; }
  ByteRange extent(std::uint64_t record) const override { return {starts_[record], starts_[record + 1]}; }
  ByteRange payload(std::uint64_t record) const override {
    return {starts_[record], starts_[record] + sizes_[record]};
  }
  void write_front(std::uint64_t, std::span<std::byte>) const override {}
  void write_back(std::uint64_t, std::uint32_t, std::span<std::byte>) const override {}

 private:
  std::vector<std::uint64_t> sizes_, starts_;
};

}  // namespace cairn
