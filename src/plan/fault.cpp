// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "base/fail.hpp"
#include "cairn/metadata.hpp"

namespace cairn {

std::string_view to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::missing_file:
      return "missing_file";
    case FaultKind::short_file:
      return "short_file";
    case FaultKind::out_of_bounds:
      return "out_of_bounds";
    case FaultKind::overlap:
      return "overlap";
    case FaultKind::hole:
      return "hole";
    case FaultKind::ndim:
      return "ndim";
    case FaultKind::dtype:
      return "dtype";
    case FaultKind::shape:
      return "shape";
    case FaultKind::crc:
      return "crc";
    case FaultKind::header:
      return "header";
    case FaultKind::pickle:
      return "pickle";
    case FaultKind::storage_data:
      return "storage_data";
  }
  return "unknown";
}

void FaultList::add(Fault fault) {
  ++count_;
  if (full()) return;
  text_bytes_ += fault.name.size() + fault.file.size() + fault.message.size();
  faults_.push_back(std::move(fault));
}

void FaultList::throw_if_any(std::string_view what) const {
  constexpr std::size_t kShown = 10;
  if (empty()) return;
  std::string text = fmt::format("{}: {} fault{}", what, count_, count_ == 1 ? "" : "s");
  const auto shown = std::min(kShown, faults_.size());
  for (std::size_t i = 0; i < shown; ++i)
    text += fmt::format("{} {}", i == 0 ? ":" : ";", faults_[i].message);
  if (count_ > shown) text += fmt::format("; and {} more", count_ - shown);
  throw Error(ErrorKind::corrupt, std::move(text), "cairn verify --metadata-only lists them all");
}

}  // namespace cairn
