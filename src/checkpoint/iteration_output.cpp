// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/iteration_output.hpp"

#include <algorithm>

#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "checkpoint/retention.hpp"
#include "formats/layout/iteration_names.hpp"
#include "formats/layout/training_tree.hpp"
#include "formats/layouts.hpp"

namespace cairn {
namespace {

// What is saved through a link lies elsewhere, or changes what is there.
void refuse_link(FileSystem& files, const std::string& path) {
  const auto status = files.status(path, false);
  if (status && status->type == FileType::symlink)
    throw Error(ErrorKind::already_exists, path + ": is a link, and nothing is saved through it",
                "remove it");
}

// Returns the path of the pointer, whose directory is there then.
std::string pointer_in(FileSystem& files, const std::string& directory) {
  files.make_directories(directory);
  const std::string pointer = layout::joined(directory, layout::kPointer);
  refuse_link(files, pointer);
  return pointer;
}

}  // namespace

std::string iteration_name(std::int64_t iteration) { return fmt::format("iter_{:09}", iteration); }

IterationOutput::IterationOutput(FileSystem& files, const std::string& directory, std::int64_t iteration,
                                 bool sync, std::vector<std::string>& warnings)
    : files_(files),
      directory_(directory),
      path_(layout::joined(directory, iteration_name(iteration))),
      part_(part_path_for(path_)),
      sync_(sync),
      pointer_(AtomicOutput::create(files, pointer_in(files, directory), 0, true, true)) {
  look_at_present();
  if (replaces_) warnings.push_back(fmt::format("{}: is there, is not complete, and is replaced", path_));
  remove_leftovers(warnings);
  refuse_link(files_, part_);
  files_.make_directories(part_);
}

IterationOutput::~IterationOutput() {
  if (published_) return;
  try {
    remove_hidden(files_, part_);
  } catch (const Error&) {
  }
}

void IterationOutput::look_at_present() {
  if (!files_.status(path_, false)) return;
  refuse_link(files_, path_);
  layout::TrainingTree tree(files_, directory_);
  const auto& all = tree.iterations();
  const auto at = std::ranges::find(all, place_of(path_).name, &layout::Iteration::name);
  if (at == all.end()) fail(ErrorKind::already_exists, "{}: is there and is no directory", path_);
  const auto found = tree.judge(static_cast<std::size_t>(at - all.begin()));
  if (found.is_complete())
    throw Error(ErrorKind::already_exists, path_ + ": the iteration is there already, and complete",
                "iterations are not replaced; remove it first");
  if (found.state == layout::Judgement::State::unknown)
    fail(ErrorKind::io, "{}: is there and could not be looked into: {}", path_, found.reason);
  replaces_ = true;
  replaced_ = found.components;
}

void IterationOutput::remove_leftovers(std::vector<std::string>& warnings) {
  for (const std::string_view ending : {kPartEnding, kRemovedEnding}) {
    for (const std::string& left : hidden_paths(files_, directory_, ending)) {
      try {
        remove_hidden(files_, left);
      } catch (const Error& error) {
        if (left == part_) throw;
        warnings.push_back(fmt::format("{}: what a killed job left stays: {}", left, error.message()));
      }
    }
  }
}

void IterationOutput::publish(std::vector<std::string>& warnings) {
  const auto text = files_.open_write(pointer_.temporary_path());
  text->write(0, as_bytes(place_of(path_).name));
  text->close();
  if (sync_) pointer_.make_durable();
  if (replaces_ && !take_out(files_, path_, replaced_, sync_))
    fail(ErrorKind::already_exists, "{}: is there, is not complete, and somebody reads it", path_);
  show();
  published_ = true;
  pointer_.settle(sync_);
  if (!replaces_) return;
  try {
    remove_hidden(files_, removed_path_for(path_));
  } catch (const Error& error) {
    warnings.push_back(fmt::format("{}: what was replaced stays: {}", path_, error.message()));
  }
}

void IterationOutput::show() {
  files_.rename_no_replace(part_, path_);
  try {
    if (sync_) files_.sync_directory(directory_);
    pointer_.show();
  } catch (...) {
    files_.rename_no_replace(path_, part_);
    throw;
  }
}

}  // namespace cairn
