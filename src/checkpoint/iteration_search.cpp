// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/iteration_search.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "formats/dcp/directory_output.hpp"

namespace cairn {
namespace {

constexpr int kAttempts = 10;  // each follows iterations that came or went

}  // namespace

std::vector<ReadPin> pin_components(FileSystem& files, const std::string& iteration,
                                    const std::vector<std::string>& components) {
  std::vector<ReadPin> pins;
  for (const std::string& name : components) {
    if (pins.size() == kMostPins) break;
    const std::string place = name.empty() ? iteration : layout::joined(iteration, name);
    pins.push_back(ReadPin::take(files, layout::joined(place, dcp::kMetadataName)));
  }
  return pins;
}

bool IterationSearch::next(const Objection& objection) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (find(objection)) return true;
    if (!look_again()) break;
  }
  return false;
}

bool IterationSearch::look_again() {
  layout::TrainingTree now(*files_, tree_.directory());
  const auto& before = tree_.iterations();
  if (std::ranges::equal(before, now.iterations(), {}, &layout::Iteration::name, &layout::Iteration::name))
    return false;
  tree_ = std::move(now);
  at_ = begin_ = 0;
  skipped_.clear();
  unknown_.reset();
  return true;
}

bool IterationSearch::find(const Objection& objection) {
  while (begin_ < tree_.iterations().size()) {
    at_ = begin_++;
    judgement_ = tree_.look(at_);
    if (judgement_.is_complete()) pins_ = pin_components(*files_, path(), judgement_.components);
    tree_.examine(at_, judgement_);
    std::string reason = judgement_.reason;
    if (reason.empty() && objection) reason = objection(judgement_);
    if (reason.empty()) return true;
    if (judgement_.state == layout::Judgement::State::unknown && !unknown_) unknown_ = skipped_.size();
    pass_over(std::move(reason));
  }
  return false;
}

void IterationSearch::pass_over(std::string reason) {
  skipped_.push_back({path(), std::move(reason)});
  pins_.clear();
}

std::vector<std::string> IterationSearch::warnings() const {
  if (!tree_.pointer_fault().empty()) return {tree_.pointer_fault()};
  const auto pointed = tree_.pointed();
  if (pointed && *pointed > at_)
    return {fmt::format("{}: the pointer names an older iteration, {}", path(),
                        tree_.iterations()[*pointed].name)};
  if (!tree_.has_pointer() && judgement_.is_complete() && iteration().name.starts_with("iter_"))
    return {fmt::format("{}: no pointer says which iteration is the latest", tree_.directory())};
  return {};
}

}  // namespace cairn
