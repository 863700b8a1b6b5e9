// SPDX-License-Identifier: BSD-3-Clause
#include "plan/linear.hpp"

#include <algorithm>

namespace cairn {
namespace {

// The largest box that starts at element `begin` and ends at or before `end`: rows of the outermost dimension
// whose inner extent `begin` is aligned to.
std::int64_t first_box(std::span<const std::int64_t> shape, std::int64_t begin, std::int64_t end, Box& box) {
  const std::size_t ndim = shape.size();
  std::int64_t inner = 1, rest = begin;
  std::size_t cut = ndim;  // the dimension that is cut; those below it are whole
  std::int64_t unit = 1;   // elements of one step in it
  for (std::size_t d = ndim; d-- > 0;) {
    box.offsets[d] = rest % shape[d];
    rest /= shape[d];
    if (begin % inner == 0 && end - begin >= inner) cut = d, unit = inner;
    inner *= shape[d];
  }
  const std::int64_t steps = std::min((end - begin) / unit, shape[cut] - box.offsets[cut]);
  for (std::size_t d = 0; d < ndim; ++d) box.sizes[d] = d < cut ? 1 : d == cut ? steps : shape[d];
  return steps * unit;
}

}  // namespace

void for_each_box(std::span<const std::int64_t> shape, std::int64_t begin, std::int64_t end,
                  const std::function<void(BoxView)>& visit) {
  Box box;
  box.offsets.assign(shape.size(), 0);
  box.sizes.assign(shape.size(), 1);
  if (shape.empty()) {
    if (begin < end) visit(box);
    return;
  }
  while (begin < end) {
    begin += first_box(shape, begin, end, box);
    visit(box);
  }
}

}  // namespace cairn
