// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/resume_choice.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "checkpoint/training_wire.hpp"
#include "formats/layout/iteration_names.hpp"
#include "formats/layouts.hpp"

namespace cairn {
namespace {

const std::string kModel = "model";
constexpr std::size_t kReasonsShown = 3;

// The first of the wanted ones that is not there; empty: all are.
std::string missing_from(const std::vector<std::string>& there, const std::vector<std::string>& wanted) {
  for (const std::string& name : wanted) {
    if (std::ranges::find(there, name) == there.end()) return name;
  }
  return {};
}

std::string reasons(const std::vector<PassedIteration>& skipped) {
  std::string text;
  for (std::size_t i = 0; i < std::min(skipped.size(), kReasonsShown); ++i)
    text += fmt::format("; {}: {}", skipped[i].path, skipped[i].reason);
  return skipped.size() > kReasonsShown ? text + "; …" : text;
}

void add_sources(ResumeChoice& choice, const std::vector<std::string>& wanted) {
  for (const std::string& name : wanted) choice.sources.emplace_back(name, layout::joined(choice.path, name));
}

}  // namespace

Bytes ResumeChoice::encode() const {
  ByteWriter out;
  out.counted_text(path);
  write_number(out, iteration);
  out.write(std::uint8_t{is_own});
  out.write<std::uint64_t>(sources.size());
  for (const auto& [component, source] : sources) {
    out.counted_text(component);
    out.counted_text(source);
  }
  write_passed(out, skipped);
  write_texts(out, warnings);
  return out.take();
}

ResumeChoice ResumeChoice::decode(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "choice of an iteration");
  ResumeChoice choice;
  choice.path = in.counted_text();
  choice.iteration = read_number(in);
  choice.is_own = in.read<std::uint8_t>() != 0;
  for (auto left = in.read<std::uint64_t>(); left > 0; --left) {
    std::string component(in.counted_text());
    choice.sources.emplace_back(std::move(component), in.counted_text());
  }
  choice.skipped = read_passed(in);
  choice.warnings = read_texts(in);
  return choice;
}

ResumeChoice ResumeChooser::choose(const std::string& directory) {
  const layout::TrainingTree tree(files_, directory);
  if (!tree.iterations().empty()) {
    ResumeChoice choice = from_tree(directory, components_);
    choice.is_own = true;
    return choice;
  }
  if (tree.has_pointer()) {
    throw Error(ErrorKind::not_found,
                fmt::format("{}: there is a pointer, and no iteration: {}", directory, tree.pointer_fault()),
                "a job that is to begin anew has no latest_checkpoint.txt");
  }
  return options_.start_from.empty() ? ResumeChoice() : from_elsewhere();
}

ResumeChoice ResumeChooser::from_tree(const std::string& directory, const std::vector<std::string>& wanted) {
  search_.emplace(files_, directory);
  const bool is_found = search_->next([&](const layout::Judgement& judgement) {
    const std::string missing = missing_from(judgement.components, wanted);
    return missing.empty() ? std::string() : fmt::format("has no {}/, which is wanted", missing);
  });
  if (const auto unknown = search_->unknown()) {
    const auto& [path, reason] = search_->skipped()[*unknown];
    throw Error(ErrorKind::io, fmt::format("{}: could not be looked into: {}", path, reason),
                "it may be the newest complete iteration");
  }
  if (!is_found) {
    throw Error(ErrorKind::not_found,
                fmt::format("{}: no iteration can be taken{}", directory, reasons(search_->skipped())),
                "a job that is to begin anew has no iterations");
  }
  ResumeChoice choice;
  choice.path = search_->path();
  choice.iteration = search_->iteration().number;
  choice.skipped = search_->skipped();
  choice.warnings = search_->warnings();
  add_sources(choice, wanted);
  return choice;
}

std::vector<std::string> ResumeChooser::wanted_elsewhere() const {
  if (options_.load_training_state) return components_;
  if (!missing_from(components_, {kModel}).empty())
    fail(ErrorKind::invalid_argument, "the model alone is to be loaded, and no component is called {}",
         kModel);
  return {kModel};
}

ResumeChoice ResumeChooser::from_elsewhere() {
  const std::string& path = options_.start_from;
  const auto status = files_.status(path);
  if (!status) fail(ErrorKind::not_found, "{}: no such file or directory", path);
  if (status->type == FileType::regular) return from_weights(path);
  const auto wanted = wanted_elsewhere();
  const auto there = layout::components_of(files_, path);
  if (there == std::vector<std::string>{""}) {
    if (wanted == std::vector{kModel}) return from_weights(path);
    throw Error(ErrorKind::invalid_argument, path + ": is one checkpoint, not an iteration with components",
                "without the training state the model is loaded from it");
  }
  const auto is_there = [&](const std::string& name) { return missing_from(there, {name}).empty(); };
  if (std::ranges::any_of(wanted, is_there)) return from_iteration(path, wanted);
  auto choice = from_tree(layout::tree_directory(files_, path), wanted);
  if (!options_.load_training_state) choice.iteration.reset();
  return choice;
}

ResumeChoice ResumeChooser::from_iteration(const std::string& path, const std::vector<std::string>& wanted) {
  pins_ = pin_components(files_, path, wanted);
  const std::string missing = missing_from(layout::components_of(files_, path), wanted);
  if (!missing.empty()) {
    throw Error(ErrorKind::not_found, fmt::format("{}: has no {}/, which is wanted", path, missing),
                "the model can be loaded alone, without the training state");
  }
  ResumeChoice choice;
  choice.path = path;
  const std::string resolved = files_.resolve(path);
  if (options_.load_training_state) choice.iteration = layout::iteration_number(place_of(resolved).name);
  add_sources(choice, wanted);
  return choice;
}

ResumeChoice ResumeChooser::from_weights(const std::string& path) const {
  if (!missing_from(components_, {kModel}).empty())
    fail(ErrorKind::invalid_argument, "{}: weights are given, and no component is called {}", path, kModel);
  ResumeChoice choice;
  choice.path = path;
  choice.sources.emplace_back(kModel, path);
  return choice;
}

}  // namespace cairn
