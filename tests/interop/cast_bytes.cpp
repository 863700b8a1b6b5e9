// SPDX-License-Identifier: BSD-3-Clause
// cast_bytes FROM TO: elements on standard input, cast, to standard output. For run_casts.py.
#include <cstdio>
#include <vector>

#include "cairn/error.hpp"
#include "tensor/cast.hpp"

namespace {

std::vector<std::byte> read_all() {
  std::vector<std::byte> bytes, piece(1 << 20);
  while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), stdin))
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(got));
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto from = cairn::dtype_from_name(argv[1]), to = cairn::dtype_from_name(argv[2]);
  if (!from || !to) return 2;
  try {
    const auto source = read_all();
    std::vector<std::byte> target(source.size() / element_size(*from) * element_size(*to));
    cairn::cast(target, *to, source, *from);
    return std::fwrite(target.data(), 1, target.size(), stdout) == target.size() ? 0 : 1;
  } catch (const cairn::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
