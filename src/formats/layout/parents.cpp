// SPDX-License-Identifier: BSD-3-Clause
#include "formats/layout/parents.hpp"

#include <algorithm>
#include <optional>

#include "base/fail.hpp"

namespace cairn::layout {
namespace {

constexpr std::size_t kLooked = 4096, kKept = 11;
constexpr std::string_view kPointer = "latest_checkpoint.txt";

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

// The pointer's text is the name of an iteration's directory.
std::string pointed_name(const Folder& folder) {
  auto text = folder.head(kPointer, 4096);
  text.erase(std::min(text.find_last_not_of(" \t\r\n") + 1, text.size()));
  return text;
}

[[noreturn]] void refuse_tree(const std::string& root, const Folder& checkpoints) {
  const auto name = pointed_name(checkpoints);
  const auto what = fmt::format("{} is a training tree", root);
  if (!is_plain_name(name)) {
    fail(ErrorKind::unsupported,
         "{}, but its {} names no directory; pass the model/ directory of one iteration", what, kPointer);
  }
  const auto model = joined(name, "model");
  if (!checkpoints.reaches_file(joined(model, ".metadata"))) {
    fail(ErrorKind::unsupported,
         "{} whose latest iteration, {}, has no model/.metadata; pass another iteration's model/", what,
         checkpoints.at(name));
  }
  fail(ErrorKind::unsupported, "{}; pass {}", what, checkpoints.at(model));
}

bool is_component(std::string_view name) {
  return name == "optim" || name == "scheduler" || name == "trainer" || name.starts_with("optim_") ||
         name.starts_with("scheduler_");
}

void refuse_iteration(const Folder& folder) {
  if (!folder.reaches_file("model/.metadata")) return;
  const auto other = folder.first([&](std::string_view name) {
    return is_component(name) && folder.reaches_file(joined(name, ".metadata"));
  });
  if (other.empty()) return;
  fail(ErrorKind::unsupported, "{} is one iteration of a training tree (model beside {}); pass {}",
       folder.path(), other, folder.at("model"));
}

void refuse_accelerate(const Folder& folder) {
  const auto part = [&](std::string_view prefix) {
    return folder.first([&](std::string_view name) {
      const auto number = name.starts_with(prefix) ? name.substr(prefix.size()) : std::string_view();
      return !number.empty() && number.find_first_not_of("0123456789") == number.npos &&
             folder.reaches_file(joined(name, ".metadata"));
    });
  };
  const auto model = part("pytorch_model_fsdp_"), optimizer = part("optimizer_");
  if (model.empty()) return;
  const auto rest = optimizer.empty() ? "" : fmt::format(" (its optimizer is in {})", folder.at(optimizer));
  fail(ErrorKind::unsupported, "{} is an Accelerate / HF Trainer checkpoint; pass {}{}", folder.path(),
       folder.at(model), rest);
}

std::optional<Folder> opened(FileSystem& files, const std::string& path, Found& found) {
  try {
    const auto status = files.status(path);
    if (!status || status->type != FileType::directory) return std::nullopt;
    return Folder(files, path);
  } catch (const Error&) {
    if (found.unreadable.empty()) found.unreadable = path;
    return std::nullopt;
  }
}

bool holds_metadata(const Folder& folder) { return folder.has_file(".metadata"); }

void look_below(FileSystem& files, const Folder& folder, int levels, std::size_t& looked, Found& found) {
  for (const auto& name : folder.names()) {
    if (found.directories.size() >= kKept || ++looked > kLooked) return;
    const auto below = opened(files, folder.at(name), found);
    if (!below) continue;
    if (holds_metadata(*below))
      found.directories.push_back(below->path());
    else if (levels > 1)
      look_below(files, *below, levels - 1, looked, found);
  }
}

}  // namespace

void refuse_known_parents(FileSystem& files, const Folder& folder) {
  if (folder.has_file(kPointer)) refuse_tree(folder.path(), folder);
  if (folder.has_directory("checkpoints") && folder.reaches_file(joined("checkpoints", kPointer))) {
    refuse_tree(folder.path(), Folder(files, folder.at("checkpoints")));
  }
  refuse_iteration(folder);
  refuse_accelerate(folder);
}

Found checkpoints_below(FileSystem& files, const Folder& folder) {
  Found found;
  std::size_t looked = 0;
  look_below(files, folder, 2, looked, found);
  return found;
}

}  // namespace cairn::layout
