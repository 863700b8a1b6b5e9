// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/whole_state.hpp"

#include <algorithm>
#include <utility>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "plan/names/glob.hpp"

namespace cairn {
namespace {

std::vector<Glob> globs_that_match(const Catalog& catalog, const std::vector<std::string>& select) {
  std::vector<Glob> globs;
  for (const std::string& pattern : select) {
    const Glob& glob = globs.emplace_back(pattern);
    if (std::ranges::none_of(catalog.entries(),
                             [&](const Entry& entry) { return glob.matches(catalog.name(entry)); }))
      fail(ErrorKind::not_found, "nothing in the checkpoint matches '{}'", escape_name(pattern));
  }
  return globs;
}

}  // namespace

WholeState::WholeState(const Catalog& catalog, const std::vector<std::string>& select, int rank, int ranks)
    : state_(rank) {
  const auto globs = globs_that_match(catalog, select);
  for (const Entry& entry : catalog.entries()) {
    const std::string_view name = catalog.name(entry);
    if (!globs.empty() && std::ranges::none_of(globs, [&](const Glob& glob) { return glob.matches(name); }))
      continue;
    if (entry.is_tensor)
      add(catalog, catalog.tensors()[entry.index], ranks);
    else
      add_object(name);
  }
}

LoadedState WholeState::take(LoadReport report) {
  LoadedState out;
  out.tensors = std::move(tensors_);
  for (const std::size_t entry : objects_)
    out.objects.emplace_back(state_.description().name(entry), state_.object(entry));
  out.report = std::move(report);
  return out;
}

void WholeState::add(const Catalog& catalog, const TensorInfo& tensor, int ranks) {
  const auto shape = catalog.shape(tensor);
  LoadedTensor& made = tensors_.emplace_back();
  made.name = catalog.name(tensor);
  made.dtype = tensor.dtype;
  made.shape.assign(shape.begin(), shape.end());
  made.bytes.resize(catalog.byte_count(tensor));
  state_.add_tensor(made.name, TensorLayout::replicated(made.shape, ranks),
                    TensorView::contiguous(made.dtype, made.shape, made.bytes.data()));
}

void WholeState::add_object(std::string_view name) {
  objects_.push_back(state_.size());
  state_.add_object(name, {});
}

}  // namespace cairn
