// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <set>
#include <unordered_set>

#include "base/keyed_hash.hpp"
#include "base/text.hpp"
#include "cairn/plan.hpp"
#include "plan/compact.hpp"
#include "plan/names/glob.hpp"

namespace cairn {
namespace {

constexpr std::size_t kShown = 1000;

template <class Strings>
void write_names(ByteWriter& out, const Strings& names) {
  write_number(out, names.size());
  for (const std::string& name : names) out.counted_text(name);
}

}  // namespace

std::string_view to_string(LoadFaultKind kind) {
  switch (kind) {
    case LoadFaultKind::missing:
      return "missing";
    case LoadFaultKind::unexpected:
      return "unexpected";
    case LoadFaultKind::kind:
      return "kind";
    case LoadFaultKind::shape:
      return "shape";
    case LoadFaultKind::dtype:
      return "dtype";
    case LoadFaultKind::hole:
      return "hole";
  }
  return "unknown";
}

std::vector<std::byte> LoadFindings::encode() const {
  ByteWriter out;
  write_number(out, static_cast<std::uint64_t>(rank));
  write_number(out, faults.size());
  for (const LoadFault& fault : faults) {
    out.write(static_cast<std::uint8_t>(fault.kind));
    out.counted_text(fault.name);
    out.counted_text(fault.message);
  }
  write_names(out, missing);
  write_number(out, wanted.size());
  std::uint8_t bits = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    bits = static_cast<std::uint8_t>(bits | (wanted[i] ? 1 : 0) << i % 8);
    if (i % 8 == 7 || i + 1 == wanted.size()) out.write(std::exchange(bits, std::uint8_t{0}));
  }
  return out.take();
}

LoadFindings LoadFindings::decode(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "load findings");
  LoadFindings findings;
  findings.rank = static_cast<int>(read_number(in, 0x7fffffff));
  findings.faults.resize(read_number(in, in.remaining() / 17));
  for (LoadFault& fault : findings.faults) {
    fault.kind = static_cast<LoadFaultKind>(read_number(in, static_cast<std::uint64_t>(LoadFaultKind::hole)));
    fault.name = in.counted_text();
    fault.message = in.counted_text();
  }
  findings.missing.resize(read_number(in, in.remaining() / 8));
  for (std::string& name : findings.missing) name = in.counted_text();
  const std::uint64_t count = read_number(in, 8 * std::uint64_t{in.remaining()});
  const auto bits = in.bytes((count + 7) / 8);
  for (std::uint64_t i = 0; i < count; ++i)
    findings.wanted.push_back((std::to_integer<unsigned>(bits[i / 8]) >> i % 8 & 1) != 0);
  if (!in.at_end()) fail_corrupt("load findings: {} bytes too many", in.remaining());
  return findings;
}

LoadVerdict judge_load(const Catalog& catalog, std::span<const LoadFindings> findings,
                       const LoadPlanOptions& options) {
  LoadVerdict report;
  std::vector<const LoadFindings*> ranks;
  for (const LoadFindings& one : findings) ranks.push_back(&one);
  std::ranges::stable_sort(ranks, {}, &LoadFindings::rank);
  std::vector<bool> wanted(catalog.entries().size(), false);
  std::set<std::string_view> missing;
  std::set<std::tuple<LoadFaultKind, std::string_view, std::string_view>> met;
  for (const LoadFindings* one : ranks) {
    if (one->wanted.size() != wanted.size()) {
      fail(ErrorKind::mismatch, "rank {} planned for {} entries of the checkpoint, there are {}", one->rank,
           one->wanted.size(), wanted.size());
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = wanted[i] || one->wanted[i];
    missing.insert(one->missing.begin(), one->missing.end());
    for (const LoadFault& fault : one->faults) {
      if (!met.emplace(fault.kind, fault.name, fault.message).second) continue;
      report.faults.push_back(fault);
      report.faults.back().message += fmt::format(" (rank {})", one->rank);
    }
  }
  report.missing.assign(missing.begin(), missing.end());
  std::vector<Glob> allowed;
  for (const std::string& pattern : options.allow_unexpected) allowed.emplace_back(pattern);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) continue;
    const std::string_view name = catalog.name(catalog.entries()[i]);
    const auto matches = [&](const Glob& glob) { return glob.matches(name); };
    if (!options.strict || std::ranges::any_of(allowed, matches))
      report.unexpected.emplace_back(name);
    else
      report.faults.push_back(
          {LoadFaultKind::unexpected, std::string(name),
           fmt::format("'{}' is in the checkpoint, and no rank wants it", escape_name(name))});
  }
  std::ranges::sort(report.unexpected);
  return report;
}

void LoadVerdict::throw_if_any() const {
  if (faults.empty()) return;
  std::string counts, sentences;
  for (int k = 0; k <= static_cast<int>(LoadFaultKind::hole); ++k) {
    const auto kind = static_cast<LoadFaultKind>(k);
    const auto count = std::ranges::count(faults, kind, &LoadFault::kind);
    if (count > 0) counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, to_string(kind));
  }
  for (const LoadFault& fault : std::span(faults).first(std::min(kShown, faults.size())))
    sentences += fmt::format("{}{}", sentences.empty() ? ": " : "; ", fault.message);
  if (faults.size() > kShown) sentences += fmt::format("; and {} more", faults.size() - kShown);
  throw Error(ErrorKind::mismatch, fmt::format("state and checkpoint do not fit: {}{}", counts, sentences));
}

}  // namespace cairn
