// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/verify_outcome.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/byte_reader.hpp"
#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "checkpoint/verify_report.hpp"

namespace cairn {
namespace {

auto order(const VerifyOutcome::ItemFault& one) {
  return std::tuple(one.item, one.fault.byte_offset, one.fault.kind, std::string_view(one.fault.message));
}

}  // namespace

void VerifyOutcome::add(const VerifyItems& items, std::uint64_t item, torch_file::Findings&& findings) {
  checked_bytes_ += findings.checked_bytes;
  for (auto& part : findings.parts) parts_.push_back({item, std::move(part)});
  fault_count_ += findings.damage_count - findings.damages.size();
  for (const auto& damage : findings.damages) add_fault(item, items.fault(items.items()[item], damage));
}

void VerifyOutcome::add_fault(std::uint64_t item, Fault fault) {
  ++fault_count_;
  faults_.push_back({item, std::move(fault)});
  if (faults_.size() >= 2 * kMostFaults) shorten();
}

void VerifyOutcome::shorten() {
  std::ranges::sort(faults_, {}, order);
  if (faults_.size() > kMostFaults) faults_.erase(faults_.begin() + kMostFaults, faults_.end());
}

void VerifyOutcome::merge(VerifyOutcome&& other) {
  unchecked_items += other.unchecked_items;
  read_bytes += other.read_bytes;
  peak_rss_bytes = std::max(peak_rss_bytes, other.peak_rss_bytes);
  checked_bytes_ += other.checked_bytes_;
  fault_count_ += other.fault_count_;
  std::ranges::move(other.faults_, std::back_inserter(faults_));
  std::ranges::move(other.parts_, std::back_inserter(parts_));
  shorten();
}

void VerifyOutcome::compare_parts(const VerifyItems& items) {
  std::ranges::sort(parts_, {}, [](const ItemPart& one) {
    return std::tuple(one.item, one.part.payload_offset, one.part.begin);
  });
  const auto parts = std::exchange(parts_, {});
  for (std::size_t i = 0; i < parts.size();) {
    const auto& [item, record] = parts[i];
    std::uint64_t reached = 0;
    std::uint32_t crc = 0;
    for (; i < parts.size() && parts[i].item == item && parts[i].part.payload_offset == record.payload_offset;
         ++i) {
      if (parts[i].part.begin != reached) continue;
      crc = crc32_combine(crc, parts[i].part.crc, parts[i].part.bytes);
      reached += parts[i].part.bytes;
    }
    if (reached == record.record_bytes) {
      torch_file::Findings findings;
      torch_file::compare_crc(record.record, record.payload_offset, record.record_bytes, record.stored_crc,
                              crc, findings);
      add(items, item, std::move(findings));
    } else if (fault_count_ == 0) {
      fail(ErrorKind::io, "zip record '{}': {} of {} bytes were checked", escape_name(record.record), reached,
           record.record_bytes);
    }
  }
}

std::vector<VerifyOutcome::ItemFault> VerifyOutcome::take_faults() {
  shorten();
  return std::move(faults_);
}

Bytes VerifyOutcome::encode() {
  shorten();
  ByteWriter out;
  for (const auto number : {unchecked_items, read_bytes, peak_rss_bytes, checked_bytes_, fault_count_,
                            std::uint64_t{faults_.size()}}) {
    out.write(number);
  }
  for (const auto& [item, fault] : faults_) {
    out.write(item);
    write_fault(out, fault);
  }
  for (const auto& [item, part] : parts_) {
    for (const auto number : {item, part.payload_offset, part.record_bytes, part.begin, part.bytes})
      out.write(number);
    out.write(part.stored_crc);
    out.write(part.crc);
    out.counted_text(part.record);
  }
  return out.take();
}

VerifyOutcome VerifyOutcome::decode(const Bytes& bytes) {
  ByteReader in(bytes, "verify outcome");
  VerifyOutcome outcome;
  std::uint64_t faults = 0;
  for (auto* number : {&outcome.unchecked_items, &outcome.read_bytes, &outcome.peak_rss_bytes,
                       &outcome.checked_bytes_, &outcome.fault_count_, &faults}) {
    *number = in.read<std::uint64_t>();
  }
  for (; faults > 0; --faults) {
    const auto item = in.read<std::uint64_t>();
    outcome.faults_.push_back({item, read_fault(in)});
  }
  while (!in.at_end()) {
    ItemPart one{};
    auto& part = one.part;
    for (auto* number : {&one.item, &part.payload_offset, &part.record_bytes, &part.begin, &part.bytes}) {
      *number = in.read<std::uint64_t>();
    }
    part.stored_crc = in.read<std::uint32_t>();
    part.crc = in.read<std::uint32_t>();
    part.record = in.counted_text();
    outcome.parts_.push_back(std::move(one));
  }
  return outcome;
}

}  // namespace cairn
