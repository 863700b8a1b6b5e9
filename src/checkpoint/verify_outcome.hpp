// SPDX-License-Identifier: BSD-3-Clause
// What some of the units of a verification found, and how it comes together: the same result in whatever
// order and on however many ranks they were worked off. Local.
#pragma once

#include <cstdint>
#include <vector>

#include "base/byte_writer.hpp"
#include "checkpoint/verify_items.hpp"

namespace cairn {

class VerifyOutcome {
 public:
  /// The first of these by item, place, kind and message are kept, the rest counted.
  static constexpr std::size_t kMostFaults = 1000;

  struct ItemFault {
    std::uint64_t item;
    Fault fault;
  };

  std::uint64_t unchecked_items = 0, read_bytes = 0, peak_rss_bytes = 0;

  void add(const VerifyItems& items, std::uint64_t item, torch_file::Findings&& findings);
  void merge(VerifyOutcome&& other);
  /// Compares the CRCs of records that lie in several slices, from their parts: once, when all are merged.
  /// Throws io when some part is neither checked nor named in a fault: that would be our own mistake.
  void compare_parts(const VerifyItems& items);

  /// In order.
  std::vector<ItemFault> take_faults();
  std::uint64_t fault_count() const { return fault_count_; }
  std::uint64_t checked_bytes() const { return checked_bytes_; }

  Bytes encode();
  static VerifyOutcome decode(const Bytes& bytes);

 private:
  struct ItemPart {
    std::uint64_t item;
    torch_file::PayloadPart part;
  };
  void add_fault(std::uint64_t item, Fault fault);
  void shorten();

  std::vector<ItemFault> faults_;
  std::uint64_t fault_count_ = 0, checked_bytes_ = 0;
  std::vector<ItemPart> parts_;
};

}  // namespace cairn
