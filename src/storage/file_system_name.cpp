// SPDX-License-Identifier: BSD-3-Clause
// Magic numbers: statfs(2), linux/magic.h, and the headers of the file systems outside the kernel tree.
#include <fmt/format.h>

#include "storage/posix_file.hpp"

namespace cairn {

namespace {

struct Name {
  std::uint64_t magic;
  const char* text;
};

constexpr Name names[] = {
    {0xEF53, "ext4"},       {0x01021994, "tmpfs"},  {0x58465342, "xfs"},      {0x9123683E, "btrfs"},
    {0x6969, "nfs"},        {0x0BD00BD0, "lustre"}, {0x47504653, "gpfs"},     {0x794C7630, "overlayfs"},
    {0x65735546, "fuse"},   {0x2FC12FC1, "zfs"},    {0xFF534D42, "cifs"},     {0xFE534D42, "smb2"},
    {0x19830326, "beegfs"}, {0x00C36400, "ceph"},   {0x20030528, "orangefs"}, {0xAAD7AAEA, "panfs"},
    {0x01021997, "9p"},     {0xF2F52010, "f2fs"},   {0xCA451A4E, "bcachefs"}, {0x858458F6, "ramfs"},
    {0x4D44, "vfat"},       {0x2011BAB0, "exfat"},  {0x73717368, "squashfs"}, {0x5346544E, "ntfs"},
};

}  // namespace

std::string file_system_name(std::uint64_t magic) {
  for (const Name& name : names) {
    if (name.magic == magic) return name.text;
  }
  return fmt::format("{:#x}", magic);
}

// They lock ranges instead of whole files.
bool takes_parallel_writes(std::uint64_t magic) {
  constexpr std::uint64_t lustre = 0x0BD00BD0, gpfs = 0x47504653, beegfs = 0x19830326;
  return magic == lustre || magic == gpfs || magic == beegfs;
}

}  // namespace cairn
