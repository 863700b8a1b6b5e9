// SPDX-License-Identifier: BSD-3-Clause
#include "formats/layout/parents.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "formats/layout/iteration_names.hpp"

namespace cairn::layout {
namespace {

constexpr std::size_t kMostLooked = 16384, kShown = 10;

std::vector<std::string> paths_of(const Folder& folder,
                                  const std::function<bool(const std::string&)>& wanted) {
  std::vector<std::string> paths;
  for (const auto& name : folder.names()) {
    if (wanted(name)) paths.push_back(folder.at(name));
  }
  return paths;
}

bool holds_metadata(const Folder& folder, std::string_view name) {
  return folder.reaches_file(joined(name, ".metadata"));
}

// --- training trees

[[noreturn]] void refuse_pointer(const Folder& checkpoints, const std::string& fault) {
  const auto others = paths_of(checkpoints, [&](const std::string& name) {
    return holds_metadata(checkpoints, name) || holds_metadata(checkpoints, joined(name, "model"));
  });
  fail(ErrorKind::not_found, "{} {}; {}", checkpoints.at(kPointer), fault,
       others.empty() ? "no other iteration with a model lies beside it" : "pass one of " + some_of(others));
}

Parent tree_parent(const Folder& checkpoints) {
  const auto name = pointed_name(checkpoints);
  if (!is_plain_name(name)) {
    refuse_pointer(checkpoints, fmt::format("names no directory ('{}')", escape_name(name)));
  }
  if (holds_metadata(checkpoints, name)) return {"a training tree", "tree", checkpoints.at(name), {}, {}};
  if (!checkpoints.has_directory(name)) {
    refuse_pointer(checkpoints, fmt::format("points to {}, which is not there", checkpoints.at(name)));
  }
  const auto model = joined(name, "model");
  if (!holds_metadata(checkpoints, name + "/model")) {
    refuse_pointer(checkpoints,
                   fmt::format("points to {}, which has no model/.metadata", checkpoints.at(name)));
  }
  return {"a training tree", "tree", checkpoints.at(model), checkpoints.at(name), {}};
}

std::optional<Parent> iteration_parent(FileSystem& files, const Folder& folder) {
  const auto resolved = files.resolve(folder.path());
  const bool named = is_iteration_name(std::string_view(resolved).substr(resolved.rfind('/') + 1));
  const auto part =
      folder.first([&](std::string_view name) { return is_component(name) && holds_metadata(folder, name); });
  if (!named && part.empty()) return std::nullopt;
  if (!folder.has_directory("model")) {
    if (part.empty()) return std::nullopt;
    fail(ErrorKind::not_found, "{} is one iteration of a training tree, but has no model/; pass one of {}",
         folder.path(),
         some_of(paths_of(folder, [&](const std::string& name) { return holds_metadata(folder, name); })));
  }
  return Parent{"one iteration of a training tree", "tree", folder.at("model"), folder.path(), {}};
}

// --- Accelerate

std::optional<Parent> accelerate_parent(const Folder& folder) {
  const auto parts = [&](std::string_view prefix) {
    return paths_of(folder, [&](const std::string& name) {
      return is_numbered(name, prefix) && folder.has_directory(name);
    });
  };
  const auto models = parts("pytorch_model_fsdp_"), optimizers = parts("optimizer_");
  if (models.empty()) return std::nullopt;
  const std::string what = "an Accelerate / HF Trainer checkpoint";
  if (models.size() > 1) {
    fail(ErrorKind::not_found, "{} is {} of several models; pass one of {}", folder.path(), what,
         some_of(models));
  }
  const auto rest = optimizers.empty() ? "" : fmt::format(" (its optimizer is in {})", some_of(optimizers));
  return Parent{what, "accelerate", models.front(), folder.path(), rest};
}

// --- any parent

class Search {
 public:
  Search(FileSystem& files, const std::function<bool(const Folder&)>& is_checkpoint)
      : files_(files), is_checkpoint_(is_checkpoint) {}

  void look_below(const Folder& folder, int levels) {
    for (const auto& name : folder.names()) {
      if (is_passing_name(name)) continue;
      if (++looked_ > kMostLooked) found_.all = false;
      if (!found_.all) return;
      if (const auto below = opened(folder.at(name))) visit(*below, levels);
    }
  }

  Found take() { return std::move(found_); }

 private:
  std::optional<Folder> opened(const std::string& path) {
    try {
      const auto status = files_.status(path);
      if (!status || status->type != FileType::directory) return std::nullopt;
      if (!known_.emplace(status->device, status->inode).second) return std::nullopt;
      return Folder(files_, path);
    } catch (const Error&) {
      if (found_.unreadable.empty()) found_.unreadable = path;
      return std::nullopt;
    }
  }

  void visit(const Folder& folder, int levels) {
    if (is_checkpoint_(folder)) {
      found_.directories.push_back(folder.path());
    } else if (!folder.first([](std::string_view name) { return name.ends_with(".distcp"); }).empty()) {
      if (found_.unfinished.empty()) found_.unfinished = folder.path();
    } else if (levels > 1) {
      look_below(folder, levels - 1);
    }
  }

  FileSystem& files_;
  const std::function<bool(const Folder&)>& is_checkpoint_;
  Found found_;
  std::size_t looked_ = 0;
  std::set<std::pair<std::uint64_t, std::uint64_t>> known_;
};

}  // namespace

std::optional<Parent> known_parent(FileSystem& files, const Folder& folder) {
  if (folder.has_file(kPointer)) return tree_parent(folder);
  if (folder.has_directory("checkpoints") && folder.reaches_file(joined("checkpoints", kPointer))) {
    return tree_parent(Folder(files, folder.at("checkpoints")));
  }
  if (auto parent = iteration_parent(files, folder)) return parent;
  return accelerate_parent(folder);
}

Found checkpoints_below(FileSystem& files, const Folder& folder,
                        const std::function<bool(const Folder&)>& is_checkpoint) {
  Search search(files, is_checkpoint);
  search.look_below(folder, 2);
  return search.take();
}

std::string some_of(const std::vector<std::string>& paths) {
  const auto shown = std::min(paths.size(), kShown);
  return fmt::format("{}{}",
                     fmt::join(paths.begin(), paths.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     shown < paths.size() ? ", …" : "");
}

}  // namespace cairn::layout
