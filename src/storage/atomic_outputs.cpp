// SPDX-License-Identifier: BSD-3-Clause
// The lock of an output's temporary covers the second name of its old output too.
#include "storage/atomic_outputs.hpp"

#include <algorithm>
#include <filesystem>

#include "base/fail.hpp"

namespace cairn {

std::string old_path_for(const std::string& final_path) { return hidden_path_for(final_path, ".cairn-old"); }

namespace {

[[noreturn]] void fail_doubled(const std::string& place) {
  fail(ErrorKind::invalid_argument, "{}: two outputs are to be this file", place);
}

// As FileSystem::resolve, where directories may be missing.
std::string resolve_ahead(FileSystem& files, const std::filesystem::path& path) {
  const auto parent = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  if (files.status(parent.string())) return files.resolve(path.string());
  return (std::filesystem::path(resolve_ahead(files, parent)) / path.filename()).lexically_normal().string();
}

}  // namespace

std::vector<std::string> AtomicOutputs::check(FileSystem& files, const std::vector<Wanted>& wanted,
                                              bool overwrite, bool discard_leftovers) {
  std::vector<std::string> places;
  for (const auto& [path, size] : wanted) {
    places.push_back(resolve_ahead(files, path));
    if (std::find(places.begin(), places.end() - 1, places.back()) != places.end() - 1)
      fail_doubled(places.back());
    AtomicOutput::check(files, places.back(), overwrite, discard_leftovers);
  }
  return places;
}

AtomicOutputs AtomicOutputs::create(FileSystem& files, const std::vector<Wanted>& wanted, bool overwrite,
                                    bool discard_leftovers) {
  AtomicOutputs set(files, overwrite, {});
  for (const auto& [path, size] : wanted) {
    const std::string place = files.resolve(path);
    if (std::ranges::find(set.outputs_, place, &AtomicOutput::final_path) != set.outputs_.end())
      fail_doubled(place);
    set.outputs_.push_back(AtomicOutput::create(files, path, size, overwrite, discard_leftovers));
  }
  set.kept_.resize(wanted.size());
  return set;
}

AtomicOutputs::AtomicOutputs(FileSystem& files, bool overwrite, std::vector<AtomicOutput> outputs)
    : files_(&files), overwrite_(overwrite), outputs_(std::move(outputs)), kept_(outputs_.size()) {}

void AtomicOutputs::keep() { std::ranges::for_each(outputs_, &AtomicOutput::keep); }
void AtomicOutputs::discard() { std::ranges::for_each(outputs_, &AtomicOutput::discard); }

void AtomicOutputs::publish(bool sync, const std::function<void()>& before_show) {
  if (sync) std::ranges::for_each(outputs_, &AtomicOutput::make_durable);
  if (before_show) before_show();
  {
    const SignalsHeld held;
    show_all();
  }
  for (AtomicOutput& output : outputs_) output.settle(sync);
}

void AtomicOutputs::show_all() {
  std::vector<std::size_t> shown;
  try {
    // what is renamed last needs no way back
    for (std::size_t i = 1; i < outputs_.size(); ++i) kept_[i] = keep_old(i);
    for (std::size_t i = outputs_.size(); i-- > 0;) {
      if (!outputs_[i].is_shown()) outputs_[i].show();
      shown.push_back(i);
    }
  } catch (Error& error) {
    const std::string lost = put_back(shown);
    drop_old();
    if (lost.empty()) throw;
    throw Error(error.kind(), error.message() + lost, error.hint());
  }
  drop_old();
}

bool AtomicOutputs::keep_old(std::size_t index) const {
  const std::string& path = outputs_[index].final_path();
  const std::string old = old_path_for(path);
  const bool has_old = files_->status(old, false).has_value();
  if (outputs_[index].is_shown()) return has_old;  // an earlier run came as far as that
  if (!overwrite_ || !files_->status(path, false)) return false;
  if (has_old) files_->unlink(old);  // of a run that was killed
  files_->link(path, old);
  return true;
}

std::string AtomicOutputs::put_back(const std::vector<std::size_t>& shown) {
  std::string lost;
  for (const std::size_t i : shown) {
    const std::string& path = outputs_[i].final_path();
    try {
      outputs_[i].unshow();
      if (kept_[i])
        files_->rename(old_path_for(path), path);
      else
        outputs_[i].withdraw();
    } catch (const Error& failure) {
      const auto where = kept_[i] ? fmt::format("; the old one is {}", old_path_for(path)) : std::string();
      lost += fmt::format("; {} had been replaced already and could not be put back ({}){}", path,
                          failure.what(), where);
    }
    kept_[i] = false;
  }
  return lost;
}

void AtomicOutputs::drop_old() const {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (!kept_[i]) continue;
    try {
      files_->unlink(old_path_for(outputs_[i].final_path()));
    } catch (const Error&) {  // a name too many harms nobody
    }
  }
}

}  // namespace cairn
