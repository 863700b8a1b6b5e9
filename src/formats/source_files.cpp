// SPDX-License-Identifier: BSD-3-Clause
#include "formats/source_files.hpp"

namespace cairn {

void SourceFiles::read(const std::string& name, std::uint64_t byte_offset, std::span<std::byte> into) {
  open(name)->read(byte_offset, into);
  read_bytes_ += into.size();
}

std::uint64_t SourceFiles::copy(const std::string& name, std::uint64_t byte_offset, std::uint64_t bytes,
                                File& output, std::uint64_t output_offset) {
  const auto source = open(name);
  const auto copied = output.copy_from(*source, byte_offset, output_offset, bytes);
  read_bytes_ += copied;
  return copied;
}

}  // namespace cairn
