// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/retention.hpp"

#include "base/fail.hpp"
#include "formats/dcp/directory_output.hpp"
#include "formats/layout/iteration_names.hpp"
#include "formats/layout/training_tree.hpp"
#include "formats/layouts.hpp"
#include "storage/atomic_output.hpp"
#include "storage/read_pin.hpp"
#include "storage/remove_tree.hpp"

namespace cairn {
namespace {

void refuse_link(FileSystem& files, const std::string& iteration) {
  const auto status = files.status(iteration, false);
  if (status && status->type == FileType::symlink)
    fail(ErrorKind::unsupported, "{} is a link: it is not removed", iteration);
}

class Pruning {
 public:
  Pruning(FileSystem& files, const std::string& directory, const RetentionRule& rule, const PruneMode& mode)
      : files_(files), tree_(files, directory), rule_(rule), mode_(mode) {}

  PruneReport run() {
    if (!mode_.dry_run) remove_leftovers();
    if (!tree_.pointer_fault().empty()) report_.warnings.push_back(tree_.pointer_fault());
    for (std::size_t i = 0; i < tree_.iterations().size(); ++i) {
      if (!mode_.judges_all && complete_ >= rule_.keep_last && stays(i))
        report_.kept.push_back(path(i));
      else
        settle(i);
    }
    return std::move(report_);
  }

 private:
  std::string path(std::size_t i) const { return tree_.path(tree_.iterations()[i]); }

  // They come newest first.
  void settle(std::size_t i) {
    const auto judgement = tree_.judge(i);
    if (!judgement.is_complete() && is_gone(path(i))) return;
    if (!judgement.is_complete())
      report_.broken.push_back({path(i), judgement.reason});
    else if (++complete_ <= rule_.keep_last || stays(i))
      report_.kept.push_back(path(i));
    else
      remove(path(i), judgement.components);
  }

  // However many newer ones there are.
  bool stays(std::size_t i) const {
    const auto number = tree_.iterations()[i].number;
    if (tree_.pointed() == i || !number) return true;
    return rule_.keep_every > 0 && *number % rule_.keep_every == 0;
  }

  // Another one prunes too, and was faster.
  bool is_gone(const std::string& path) const { return !files_.status(path, false); }

  void remove(const std::string& path, const std::vector<std::string>& components) {
    try {
      refuse_link(files_, path);
      if (!mode_.dry_run && !take_out(files_, path, components, mode_.sync)) {
        if (!is_gone(path)) report_.in_use.push_back({path, "somebody reads it"});
        return;
      }
      report_.removed.push_back(path);
      if (!mode_.dry_run) remove_hidden(files_, removed_path_for(path));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::not_found || !is_gone(path))
        report_.failed.push_back({path, error.message()});
    }
  }

  void remove_leftovers() {
    for (const std::string& left : hidden_paths(files_, tree_.directory(), kRemovedEnding)) {
      try {
        remove_hidden(files_, left);
      } catch (const Error& error) {
        report_.failed.push_back({left, error.message()});
      }
    }
  }

  FileSystem& files_;
  layout::TrainingTree tree_;
  const RetentionRule& rule_;
  const PruneMode& mode_;
  int complete_ = 0;
  PruneReport report_;
};

void check(const RetentionRule& rule) {
  if (rule.keep_last < 1)
    fail(ErrorKind::invalid_argument, "{} iterations to keep: 1 is needed at least", rule.keep_last);
  if (rule.keep_every < 0)
    fail(ErrorKind::invalid_argument, "every {}th iteration to keep makes no sense", rule.keep_every);
}

}  // namespace

std::string removed_path_for(const std::string& iteration) {
  return hidden_path_for(iteration, kRemovedEnding);
}

std::string part_path_for(const std::string& iteration) { return hidden_path_for(iteration, kPartEnding); }

bool take_out(FileSystem& files, const std::string& iteration, const std::vector<std::string>& components,
              bool sync) {
  refuse_link(files, iteration);
  std::vector<std::unique_ptr<File>> locks;
  for (const std::string& name : components) {
    const std::string place = name.empty() ? iteration : layout::joined(iteration, name);
    const std::string metadata = layout::joined(place, dcp::kMetadataName);
    if (!files.status(metadata)) continue;  // half a component: nobody can read it
    locks.push_back(exclusive_lock(files, metadata));
    if (!locks.back()) return false;
  }
  const std::string hidden = removed_path_for(iteration);
  remove_hidden(files, hidden);
  files.rename_no_replace(iteration, hidden);
  // what is removed then must not come back as half an iteration
  if (sync) files.sync_directory(place_of(iteration).directory);
  return true;
}

void remove_hidden(FileSystem& files, const std::string& path) {
  remove_tree(files, path, dcp::kMetadataName);
}

std::vector<std::string> hidden_paths(FileSystem& files, const std::string& directory,
                                      std::string_view ending) {
  std::vector<std::string> found;
  for (const std::string& name : files.list(directory)) {
    if (!name.starts_with('.') || !name.ends_with(ending)) continue;
    const std::string_view iteration = std::string_view(name).substr(1, name.size() - ending.size() - 1);
    const std::string path = layout::joined(directory, name);
    const auto status = files.status(path, false);
    if (layout::is_iteration_name(iteration) && status && status->type == FileType::directory)
      found.push_back(path);
  }
  return found;
}

PruneReport prune_directory(FileSystem& files, const std::string& directory, const RetentionRule& rule,
                            const PruneMode& mode) {
  check(rule);
  return Pruning(files, directory, rule, mode).run();
}

PruneReport prune(FileSystem& files, const std::string& root, const RetentionRule& rule, bool dry_run) {
  return prune_directory(files, layout::tree_directory(files, root), rule, {.dry_run = dry_run});
}

}  // namespace cairn
