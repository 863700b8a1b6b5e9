// SPDX-License-Identifier: BSD-3-Clause
#include "commands/selection.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <clocale>

#include "base/fail.hpp"

namespace cairn {

Selection select(const Listing& listing, const std::vector<std::string>& globs) {
  const auto all = listing.catalog.entries();
  if (globs.empty()) return {listing, {all.begin(), all.end()}};
  std::setlocale(LC_CTYPE, "C.UTF-8");  // '?' is a character, not a byte
  Selection selection{listing, {}};
  std::vector<bool> used(globs.size());
  for (const auto& entry : all) {
    const std::string name(listing.catalog.name(entry));
    bool wanted = false;
    for (std::size_t i = 0; i < globs.size(); ++i) {
      if (fnmatch(globs[i].c_str(), name.c_str(), 0) != 0) continue;
      wanted = used[i] = true;
    }
    if (wanted) selection.entries.push_back(entry);
  }
  const auto unused = std::ranges::find(used, false);
  if (unused == used.end()) return selection;
  fail(ErrorKind::not_found, "no name matches '{}'", globs[static_cast<std::size_t>(unused - used.begin())]);
}

}  // namespace cairn
