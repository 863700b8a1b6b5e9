// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/destination.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "storage/atomic_output.hpp"

namespace cairn {
namespace {

std::string parent_of(const std::string& path) {
  const auto slash = path.find_last_not_of('/') == std::string::npos
                         ? std::string::npos
                         : path.rfind('/', path.find_last_not_of('/'));
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool ends_in_parent(std::string_view path) {
  path = path.substr(0, path.find_last_not_of('/') + 1);
  return path.ends_with("/..");
}

// The nearest directory above `path` that exists, links resolved. Once the missing ones are made, a '..'
// after them would lead elsewhere than below it.
std::string existing_ancestor(FileSystem& files, const std::string& path) {
  std::string above = parent_of(path);
  for (; !files.status(above) && above != "/" && above != "."; above = parent_of(above)) {
    if (ends_in_parent(above)) fail(ErrorKind::not_found, "{}: no such directory", escape_name(above));
  }
  return files.resolve(above);
}

bool is_within(const std::string& path, const std::string& directory) {
  return path == directory || path.starts_with(directory == "/" ? directory : directory + "/");
}

[[noreturn]] void refuse_place(const std::string& source, const std::string& output) {
  throw Error(ErrorKind::mismatch,
              fmt::format("{}: the output would replace or lie inside the checkpoint {}", escape_name(output),
                          escape_name(source)),
              "choose a place outside it");
}

// What outputs need, by the device they go to.
class Room {
 public:
  explicit Room(FileSystem& files) : files_(files) {}

  /// What is at `there` (empty: nothing) gives its room. Returns the device.
  std::uint64_t add(const std::string& file, std::uint64_t bytes, const std::string& there) {
    const auto leftover = there.empty() ? std::nullopt : files_.status(there, false);
    const Place& place = place_of(directory_for(files_, file));
    devices_[place.device].needed += bytes - (leftover ? std::min(leftover->size, bytes) : 0);
    devices_[place.device].directory = place.directory;
    return place.device;
  }

  void check() {
    for (auto& [number, device] : devices_) {
      device.free = files_.free_bytes(device.directory);
      if (device.free >= device.needed) continue;
      fail(ErrorKind::io, "{}: disk full: the output needs {} bytes, {} are free",
           escape_name(device.directory), device.needed, device.free);
    }
  }

  std::uint64_t free_bytes(std::uint64_t device) const { return devices_.at(device).free; }

 private:
  struct Place {
    std::string directory;  // that exists
    std::uint64_t device;
  };
  struct Device {
    std::uint64_t needed = 0, free = 0;
    std::string directory;  // on it
  };

  const Place& place_of(const std::string& wanted) {
    const auto known = places_.find(wanted);
    if (known != places_.end()) return known->second;
    const std::string directory = files_.status(wanted) ? wanted : existing_ancestor(files_, wanted);
    if (!files_.writable_directory(directory)) {
      fail(ErrorKind::io, "{}: no permission to write in this directory, or a read-only file system",
           escape_name(directory));
    }
    const auto status = files_.status(directory);
    return places_[wanted] = {directory, status ? status->device : 0};
  }

  FileSystem& files_;
  std::map<std::string, Place> places_;
  std::map<std::uint64_t, Device> devices_;
};

}  // namespace

void check_output(FileSystem& files, const std::string& source, const std::string& file, bool overwrite) {
  const auto link = files.status(file, false);
  const std::string place = link && link->type == FileType::symlink ? files.resolve(file) : file;
  const std::string above = existing_ancestor(files, place);
  const auto present = files.status(file);
  if (!source.empty()) {
    const auto read = files.status(source);
    const bool is_source =
        present && read && present->device == read->device && present->inode == read->inode;
    if (is_source || is_within(above, files.resolve(source))) refuse_place(source, file);
  }
  if (present && present->type != FileType::regular) {
    fail(ErrorKind::io, "{}: the output is neither a regular file nor a directory", escape_name(file));
  }
  if (present && !overwrite) {
    throw Error(ErrorKind::already_exists, fmt::format("{}: the output exists", escape_name(file)),
                "use --overwrite to replace it");
  }
}

void check_output_directory(FileSystem& files, const std::string& source, const std::string& directory,
                            bool overwrite) {
  const auto present = files.status(directory);
  const std::string place = present ? files.resolve(directory) : existing_ancestor(files, directory);
  if (is_within(place, files.resolve(source))) refuse_place(source, directory);
  if (present && present->type != FileType::directory)
    fail(ErrorKind::already_exists, "{}: the output is to be a directory, and is none",
         escape_name(directory));
  if (present && !overwrite && files.status(directory + "/.metadata")) {
    throw Error(ErrorKind::already_exists,
                fmt::format("{}: a checkpoint is there already", escape_name(directory)),
                "use --overwrite to replace it");
  }
}

std::string choose_destination(FileSystem& files, const std::string& source, const std::string& destination,
                               bool overwrite) {
  if (destination.empty()) fail(ErrorKind::invalid_argument, "no destination was given: SRC DST are needed");
  std::string file = destination;
  const auto given = files.status(destination);
  if (destination.ends_with('/') || (given && given->type == FileType::directory)) {
    while (file.size() > 1 && file.ends_with('/')) file.pop_back();
    file += file.ends_with('/') ? "model.pth" : "/model.pth";
  }
  check_output(files, source, file, overwrite);
  return file;
}

std::string directory_for(FileSystem& files, const std::string& file) {
  return parent_of(files.status(file) ? files.resolve(file) : file);
}

std::vector<std::uint64_t> check_room(FileSystem& files, std::span<const AtomicOutputs::Wanted> wanted,
                                      bool takes_leftovers, std::span<const AtomicOutputs::Wanted> named) {
  Room room(files);
  std::vector<std::uint64_t> devices;
  for (const auto& [path, size] : wanted)
    devices.push_back(room.add(path, size, takes_leftovers ? temporary_path_for(path) : std::string()));
  for (const auto& [path, size] : named) room.add(path, size, path);
  room.check();
  for (std::uint64_t& device : devices) device = room.free_bytes(device);
  return devices;
}

}  // namespace cairn
