// SPDX-License-Identifier: BSD-3-Clause
#include "formats/layouts.hpp"

#include <optional>

#include "base/fail.hpp"
#include "formats/layout/companions.hpp"
#include "formats/layout/file_kind.hpp"
#include "formats/layout/folder.hpp"
#include "formats/layout/parents.hpp"
#include "formats/layout/refusals.hpp"
#include "formats/safetensors/sharding.hpp"

namespace cairn {
namespace {

using layout::Folder;
using layout::Found;

FileType type_of(FileSystem& files, const std::string& path) {
  const auto status = files.status(path);
  if (!status)
    fail(ErrorKind::not_found, "{}: no such file or directory", path.empty() ? "(empty path)" : path);
  if (status->type != FileType::regular && status->type != FileType::directory) {
    fail(ErrorKind::unsupported, "{} is neither a directory nor a regular file", path);
  }
  return status->type;
}

Located safetensors_file(std::string path) {
  return {Located::Kind::safetensors, std::move(path), "safetensors", {}};
}

Located single_file(FileSystem& files, const std::string& path) {
  if (layout::is_index(files, path)) return safetensors_file(path);
  const auto kind = layout::file_kind(files, path);
  if (kind == "a torch file") return {Located::Kind::torch_file, path, "torch", {}};
  if (kind != "a safetensors file" || safetensors::is_box_shard(place_of(path).name))
    layout::refuse_file(files, path);
  return safetensors_file(path);
}

bool has_box_shards(const Folder& folder) { return !folder.first(safetensors::is_box_shard).empty(); }

std::optional<Located> whole_files_in(FileSystem& files, const Folder& folder) {
  if (const auto name = layout::index_in(files, folder); !name.empty())
    return safetensors_file(folder.at(name));
  const auto is_file = [](std::string_view name) { return name.ends_with(safetensors::kExtension); };
  const auto name = folder.first(is_file);
  if (folder.count(is_file) != 1 || !folder.has_file(name)) return std::nullopt;
  Located only = safetensors_file(folder.at(name));
  if (name != safetensors::kSingleName)
    only.note = fmt::format("{} holds one safetensors file, which is taken: {}", folder.path(), only.path);
  return only;
}

bool has_safetensors(const Folder& folder) {
  return !folder.first([](std::string_view name) { return name.ends_with(safetensors::kExtension); }).empty();
}

// What HuggingFaceStorageWriter leaves when it has put its shards together lies beside them.
std::optional<Located> safetensors_in(FileSystem& files, const Folder& folder) {
  if (has_box_shards(folder)) return Located{Located::Kind::hf_dcp, folder.path(), "hf_dcp", {}};
  const std::string below = folder.at("sharded");
  const bool has_sharded = folder.has_directory("sharded") && has_box_shards(Folder(files, below));
  if (auto whole = whole_files_in(files, folder)) {
    if (has_sharded) {
      whole->note = fmt::format(
          "{} is taken, which was put together of the shards in {}: PyTorch (2.13) leaves zeros there in "
          "place "
          "of tensors without dimensions; pass {} for what was saved",
          whole->path, below, below);
    }
    return whole;
  }
  if (has_safetensors(folder) || !has_sharded) return std::nullopt;
  return Located{Located::Kind::hf_dcp, below, "hf_dcp", {}};
}

[[noreturn]] void refuse_directory(const Folder& folder, const Found& found) {
  if (!found.all) {
    fail(ErrorKind::not_found, "{} has too many entries to be searched; pass the checkpoint itself",
         folder.path());
  }
  if (found.directories.size() > 1) {
    fail(ErrorKind::not_found, "{} has several checkpoints below it; pass one of {}", folder.path(),
         layout::some_of(found.directories));
  }
  if (!found.unfinished.empty()) {
    fail(ErrorKind::not_found, "{} has no .metadata, and {} has shards but no .metadata either",
         folder.path(), found.unfinished);
  }
  if (!found.unreadable.empty()) {
    fail(ErrorKind::not_found, "{} has no .metadata, and {} could not be looked into", folder.path(),
         found.unreadable);
  }
  layout::refuse_plain_files(folder);
  if (folder.names().empty()) fail(ErrorKind::not_found, "{} is an empty directory", folder.path());
  fail(ErrorKind::not_found, "{} holds no checkpoint: no .metadata in it, nor one or two levels below",
       folder.path());
}

// The directory itself, or a refusal.
Located bare_directory(FileSystem& files, const std::string& path, std::string format, std::string note) {
  const Folder folder(files, path);
  if (!layout::has_metadata(folder)) {
    layout::refuse_other_sharded(folder);
    refuse_directory(folder, {});
  }
  layout::refuse_look_alikes(folder);
  auto companion = layout::companion_of(folder);
  if (companion && format == "dcp") format = companion->format;
  return {Located::Kind::dcp, path, std::move(format), std::move(note),
          companion ? std::move(companion->name) : std::string()};
}

std::string passed_over(const Found& found) {
  if (!found.unfinished.empty()) return fmt::format(" ({} has shards but no .metadata)", found.unfinished);
  if (!found.unreadable.empty()) return fmt::format(" ({} could not be looked into)", found.unreadable);
  return {};
}

Found checkpoints_below(FileSystem& files, const Folder& folder) {
  return layout::checkpoints_below(files, folder, [&](const Folder& below) {
    return layout::has_metadata(below) || safetensors_in(files, below);
  });
}

// A directory of either kind.
Located directory_at(FileSystem& files, const std::string& path, const std::string& format,
                     std::string note) {
  const Folder folder(files, path);
  if (!layout::has_metadata(folder)) {
    if (auto found = safetensors_in(files, folder)) {
      if (!note.empty()) found->note = std::move(note);
      return *std::move(found);
    }
  }
  return bare_directory(files, path, format, std::move(note));
}

Located locate_below(FileSystem& files, const Folder& folder) {
  const auto found = checkpoints_below(files, folder);
  if (found.directories.size() != 1 || !found.all) refuse_directory(folder, found);
  Located only = directory_at(files, found.directories.front(), "dcp", {});
  const std::string about_it = only.note.empty() ? "" : "; " + only.note;
  only.note = fmt::format("{} has one checkpoint below it, which is taken: {}{}{}", folder.path(), only.path,
                          passed_over(found), about_it);
  return only;
}

// --- for verify

// A directory, and the torch file that belongs to it.
std::vector<Located> with_companion(Located directory) {
  std::vector<Located> all{std::move(directory)};
  if (all[0].companion.empty()) return all;
  std::string file = layout::joined(all[0].path, all[0].companion);
  all.push_back({Located::Kind::torch_file, std::move(file), all[0].format, {}});
  return all;
}

std::vector<std::string> components_in(FileSystem& files, const Folder& folder) {
  std::vector<std::string> paths;
  for (const auto& name : folder.names()) {
    if (!folder.has_directory(name)) continue;
    const Folder part(files, folder.at(name));
    if (layout::has_metadata(part))
      paths.push_back(part.path());
    else
      layout::refuse_other_sharded(part);
  }
  return paths;
}

std::vector<std::string> all_below(FileSystem& files, const Folder& folder) {
  auto found = checkpoints_below(files, folder);
  if (found.directories.empty() || !found.all) refuse_directory(folder, found);
  if (!found.unfinished.empty()) bare_directory(files, found.unfinished, {}, {});
  if (!found.unreadable.empty()) {
    fail(ErrorKind::io, "{} could not be looked into for checkpoints", found.unreadable);
  }
  return std::move(found.directories);
}

std::vector<Located> each(FileSystem& files, const std::vector<std::string>& paths, const std::string& format,
                          const std::string& what) {
  std::vector<Located> located;
  for (const auto& path : paths) {
    auto note = located.empty() ? fmt::format("{}: {}", what, layout::some_of(paths)) : std::string();
    for (Located& one : with_companion(directory_at(files, path, format, std::move(note))))
      located.push_back(std::move(one));
  }
  return located;
}

}  // namespace

FilePlace place_of(const std::string& file) {
  const auto slash = file.rfind('/');
  if (slash == std::string::npos) return {".", file};
  return {slash == 0 ? "/" : file.substr(0, slash), file.substr(slash + 1)};
}

void require_directory(const Located& located) {
  refuse_torch_file(located);
  if (located.kind == Located::Kind::dcp) return;
  fail(ErrorKind::unsupported,
       "{} is a checkpoint of safetensors files, and a DCP directory is needed; `cairn convert` reads it",
       located.path);
}

void refuse_torch_file(const Located& located) {
  if (located.kind != Located::Kind::torch_file) return;
  fail(ErrorKind::unsupported,
       "{} is a torch file, and a sharded checkpoint is needed; `cairn convert` reads it", located.path);
}

safetensors::Site site_of(FileSystem& files, const Located& located) {
  if (located.kind == Located::Kind::hf_dcp) {
    const Folder folder(files, located.path);
    return {located.path, std::string(folder.first(safetensors::is_box_shard)), true};
  }
  auto [directory, name] = place_of(located.path);
  return {std::move(directory), std::move(name)};
}

Located locate_checkpoint(FileSystem& files, const std::string& path) {
  if (type_of(files, path) == FileType::regular) return single_file(files, path);
  const Folder folder(files, path);
  if (layout::has_metadata(folder)) return bare_directory(files, path, "dcp", {});
  if (const auto parent = layout::known_parent(files, folder)) {
    return bare_directory(
        files, parent->model, parent->format,
        fmt::format("{} is {}; its {}model is taken: {}{}", path, parent->what,
                    parent->what == "a training tree" ? "latest " : "", parent->model, parent->beside));
  }
  layout::refuse_other_sharded(folder);
  if (auto found = safetensors_in(files, folder)) return *std::move(found);
  return locate_below(files, folder);
}

Located locate_iteration(FileSystem& files, const std::string& path) {
  const Folder folder(files, path);
  const auto parent = layout::known_parent(files, folder);
  if (!parent || parent->components.empty()) {
    fail(ErrorKind::not_found, "{} is no iteration of a training tree, and no tree with one", path);
  }
  Located whole{Located::Kind::dcp, parent->components, parent->format, {}, {}};
  if (parent->components != path)
    whole.note = fmt::format("{} is {}; all of {} is taken", path, parent->what, parent->components);
  const Folder iteration(files, parent->components);
  for (const std::string& component : components_in(files, iteration)) {
    if (!bare_directory(files, component, "dcp", {}).companion.empty()) {
      fail(ErrorKind::unsupported, "{} holds more than its shards, and cannot be a part of a whole iteration",
           component);
    }
    whole.components.push_back(place_of(component).name);
  }
  return whole;
}

std::vector<Located> locate_for_verify(FileSystem& files, const std::string& path) {
  if (type_of(files, path) == FileType::regular) return {single_file(files, path)};
  const Folder folder(files, path);
  if (layout::has_metadata(folder)) return with_companion(bare_directory(files, path, "dcp", {}));
  if (const auto parent = layout::known_parent(files, folder)) {
    if (parent->components.empty()) return {locate_checkpoint(files, path)};
    bare_directory(files, parent->model, {}, {});  // the others do without one, the whole does not
    return each(files, components_in(files, Folder(files, parent->components)), parent->format,
                fmt::format("{} is {}, which is checked as", path, parent->what));
  }
  layout::refuse_other_sharded(folder);
  if (auto found = safetensors_in(files, folder)) return {*std::move(found)};
  return each(files, all_below(files, folder), "dcp",
              fmt::format("{} is no checkpoint itself; below it is checked", path));
}

}  // namespace cairn
