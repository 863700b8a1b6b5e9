// SPDX-License-Identifier: BSD-3-Clause
#include "formats/layout/file_kind.hpp"

#include <string_view>

namespace cairn::layout {
namespace {

constexpr std::size_t kHeadBytes = 4096, kIndexHeadBytes = 64 << 10;

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (auto at = bytes.rbegin(); at != bytes.rend(); ++at) {
    value = value << 8 | static_cast<unsigned char>(*at);
  }
  return value;
}

// Local header: signature, …, name length at 26, name at 30.
bool is_torch_zip(std::string_view head) {
  if (head.size() < 30) return false;
  const auto name = head.substr(30).substr(0, little_endian(head.substr(26, 2)));
  return name.ends_with("/data.pkl") || name.ends_with("/version") || name.ends_with("/byteorder") ||
         name.ends_with("/constants.pkl") || name.find("/code/") != name.npos ||
         name.find("/data/") != name.npos;  // TorchScript of today, and what other programs put together anew
}

// The first torch.save wrote a tar archive.
bool is_tar(std::string_view head) { return head.size() >= 262 && head.substr(257, 5) == "ustar"; }

// torch before 1.6: a pickled magic number, 0x1950a86a20f9469cfc6c, comes first.
bool is_old_torch(std::string_view head) {
  return head.starts_with("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19");
}

// 8 bytes of header length, then JSON, whether or not the length is sane.
bool is_safetensors(std::string_view head) {
  return head.size() >= 10 && head[8] == '{' && std::string_view("\"} \t\r\n").find(head[9]) != head.npos;
}

bool is_index_name(std::string_view name) { return name.ends_with(".index.json"); }

}  // namespace

bool is_index(FileSystem& files, const std::string& path) {
  if (!is_index_name(path)) return false;
  const auto head = head_of_file(files, path, kIndexHeadBytes);
  return head.find("\"weight_map\"") != head.npos && head.find(".safetensors\"") != head.npos;
}

std::string index_in(FileSystem& files, const Folder& folder) {
  constexpr std::string_view usual = "model.safetensors.index.json";
  if (folder.has_file(usual)) return std::string(usual);
  std::string only;
  for (const auto& name : folder.names()) {
    if (!is_index_name(name) || !folder.has_file(name) || !is_index(files, folder.at(name))) continue;
    if (!only.empty()) return {};
    only = name;
  }
  return only;
}

std::string file_kind(FileSystem& files, const std::string& path) {
  const auto text = head_of_file(files, path, kHeadBytes);
  const std::string_view head = text;
  if (head.empty()) return "an empty file";
  if (head.starts_with("PK\x03\x04")) return is_torch_zip(head) ? "a torch file" : "a zip file";
  if (is_tar(head)) return "a tar archive, as torch.save wrote in its first days";
  if (is_old_torch(head)) return "a torch file of the form before torch 1.6";
  if (head.starts_with("\x89HDF\r\n\x1a\n")) return "an HDF5 file";
  if (is_safetensors(head)) return "a safetensors file";
  return {};
}

}  // namespace cairn::layout
