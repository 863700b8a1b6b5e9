// SPDX-License-Identifier: BSD-3-Clause
#include "formats/layout/training_tree.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "formats/dcp/directory_output.hpp"
#include "formats/dcp/source.hpp"
#include "formats/layout/iteration_names.hpp"

namespace cairn::layout {
namespace {

using dcp::kMetadataName;

// What a save in the making, or one that was, has in its directory.
bool belongs_to_checkpoint(std::string_view name) {
  return name == kMetadataName || name.ends_with(".distcp") || name == ".metadata.tmp" ||
         name == "..metadata.cairn-part";
}

bool is_checkpoint(const Folder& folder) { return !folder.first(belongs_to_checkpoint).empty(); }

bool has_iterations(const Folder& folder) {
  return folder.has_file(kPointer) || !folder
                                           .first([&](std::string_view name) {
                                             return iteration_number(name) && folder.has_directory(name);
                                           })
                                           .empty();
}

bool newer_first(const Iteration& a, const Iteration& b) {
  const auto age = [](const Iteration& one) {
    return one.number.value_or(std::numeric_limits<std::int64_t>::max());
  };
  return age(a) != age(b) ? age(a) > age(b) : a.name > b.name;
}

std::string named(std::string_view component) {
  return component.empty() ? std::string("it") : escape_name(component) + "/";
}

// `reason_of` looks for a reason against it.
template <class ReasonOf>
void settle(Judgement& judgement, ReasonOf&& reason_of) {
  using State = Judgement::State;
  try {
    judgement.reason = reason_of();
    judgement.state = judgement.reason.empty() ? State::complete : State::broken;
  } catch (const Error& error) {
    judgement.reason = error.message();
    judgement.state = error.kind() == ErrorKind::io ? State::unknown : State::broken;
  }
}

}  // namespace

bool Judgement::has(std::string_view component) const {
  return std::ranges::binary_search(components, component);
}

std::string tree_directory(FileSystem& files, const std::string& root) {
  const auto status = files.status(root);
  if (!status || status->type != FileType::directory)
    fail(ErrorKind::not_found, "{}: {}", root, status ? "no directory" : "no such directory");
  const Folder folder(files, root);
  if (has_iterations(folder)) return root;
  if (folder.has_directory("checkpoints")) {
    const Folder below(files, folder.at("checkpoints"));
    if (has_iterations(below)) return below.path();
  }
  if (is_checkpoint(folder) || folder.has_directory("model"))
    fail(ErrorKind::not_found, "{} is one checkpoint; pass the directory that holds it and others", root);
  fail(ErrorKind::not_found, "{} holds no iterations (iter_N, step-N), nor does its checkpoints/", root);
}

std::vector<std::string> components_of(FileSystem& files, const std::string& iteration) {
  const Folder folder(files, iteration);
  if (is_checkpoint(folder)) return {""};
  std::vector<std::string> found;
  for (const std::string& name : folder.names()) {
    if (name.starts_with('.') || !folder.has_directory(name)) continue;
    const Folder part(files, folder.at(name));
    if (part.names().empty() || is_checkpoint(part)) found.push_back(name);
  }
  return found;
}

TrainingTree::TrainingTree(FileSystem& files, std::string directory)
    : files_(&files), directory_(std::move(directory)) {
  if (!files_->status(directory_)) return;
  const Folder folder(*files_, directory_);
  for (const std::string& name : folder.names()) {
    const auto number = iteration_number(name);
    if (number && folder.has_directory(name)) iterations_.push_back({name, number});
  }
  std::ranges::sort(iterations_, newer_first);
  find_pointed(folder);
}

void TrainingTree::find_pointed(const Folder& folder) {
  has_pointer_ = folder.has_file(kPointer);
  if (!has_pointer_) return;
  std::string name;
  try {
    name = pointed_name(folder);
  } catch (const Error& error) {
    pointer_fault_ = error.message();
    return;
  }
  if (!is_plain_name(name)) {
    pointer_fault_ = fmt::format("{} names no directory ('{}')", folder.at(kPointer), escape_name(name));
    return;
  }
  if (is_passing_name(name) || name.starts_with('.')) {
    pointer_fault_ =
        fmt::format("{} points to {}, which is no iteration", folder.at(kPointer), escape_name(name));
    return;
  }
  auto at = std::ranges::find(iterations_, name, &Iteration::name);
  if (at == iterations_.end() && folder.has_directory(name))
    at = iterations_.insert(iterations_.end(), {name, std::nullopt});
  if (at == iterations_.end())
    pointer_fault_ =
        fmt::format("{} points to {}, which is not there", folder.at(kPointer), escape_name(name));
  else
    pointed_ = static_cast<std::size_t>(at - iterations_.begin());
}

std::string TrainingTree::place(std::size_t iteration, const std::string& component) const {
  const std::string where = path(iterations_[iteration]);
  return component.empty() ? where : joined(where, component);
}

const std::vector<std::string>& TrainingTree::components(std::size_t iteration) {
  const auto known = components_.find(iteration);
  if (known != components_.end()) return known->second;
  return components_[iteration] = components_of(*files_, path(iterations_[iteration]));
}

const std::vector<std::string>* TrainingTree::neighbour(std::size_t iteration, bool newer) {
  const std::size_t count = newer ? iteration : iterations_.size() - iteration - 1;
  for (std::size_t step = 1; step <= count; ++step) {
    if (!iterations_[newer ? iteration - step : iteration + step].number) continue;  // its place says nothing
    try {
      const auto& found = components(newer ? iteration - step : iteration + step);
      if (!found.empty()) return &found;
    } catch (const Error&) {  // one that cannot be looked into says nothing of this one
    }
  }
  return nullptr;
}

std::vector<std::string> TrainingTree::required(std::size_t iteration) {
  if (pointed_ == iteration) return {};
  if (pointed_ && iterations_[*pointed_].number && iteration < *pointed_) {
    const auto last = *pointed_ - 1;
    if (const auto* const pointed = neighbour(last, false)) return *pointed;
    return {};
  }
  const auto* const older = neighbour(iteration, false);
  const auto* const newer = neighbour(iteration, true);
  if (older == nullptr) return {};
  if (newer == nullptr) return *older;
  std::vector<std::string> both;
  std::ranges::set_intersection(*older, *newer, std::back_inserter(both));
  return both;
}

// What can be told from names; empty: nothing is missing.
std::string TrainingTree::missing_from(std::size_t iteration, const Judgement& judgement) {
  if (judgement.components.empty()) return "holds no checkpoint";
  for (const std::string& name : judgement.components) {
    if (!Folder(*files_, place(iteration, name)).has_file(kMetadataName))
      return named(name) + " has no .metadata: its save did not finish";
  }
  for (const std::string& name : required(iteration)) {
    if (!name.empty() && !judgement.has(name))
      return fmt::format("has no {}, which its neighbours have: its save did not finish", named(name));
  }
  return {};
}

std::string TrainingTree::damage_of(std::size_t iteration, const Judgement& judgement) const {
  for (const std::string& name : judgement.components) {
    FaultList faults;
    dcp::read_metadata(*files_, place(iteration, name), faults);
    if (faults.empty()) continue;
    const auto more = faults.count() - 1;
    return fmt::format("{} is damaged: {}{}", named(name), faults.faults()[0].message,
                       more == 0 ? "" : fmt::format(" (and {} more)", more));
  }
  return {};
}

Judgement TrainingTree::look(std::size_t iteration) {
  Judgement judgement;
  settle(judgement, [&] {
    judgement.components = components(iteration);
    return missing_from(iteration, judgement);
  });
  return judgement;
}

void TrainingTree::examine(std::size_t iteration, Judgement& judgement) const {
  if (judgement.is_complete()) settle(judgement, [&] { return damage_of(iteration, judgement); });
}

Judgement TrainingTree::judge(std::size_t iteration) {
  Judgement judgement = look(iteration);
  examine(iteration, judgement);
  return judgement;
}

}  // namespace cairn::layout
