// SPDX-License-Identifier: BSD-3-Clause
// item_frame DTYPE CRC [SIZE …]: the head and the tail of the item of a contiguous tensor whose payload has
// that CRC-32, to standard output. For run_large_items.py.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cairn/error.hpp"
#include "formats/dcp/item_writer.hpp"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const auto dtype = cairn::dtype_from_name(argv[1]);
  if (!dtype) return 2;
  std::vector<std::int64_t> shape;
  for (int i = 3; i < argc; ++i) shape.push_back(std::strtoll(argv[i], nullptr, 10));
  try {
    const cairn::dcp::TensorItem item(*dtype, shape);
    std::vector<std::byte> tail(item.tail_bytes());
    item.write_tail(static_cast<std::uint32_t>(std::strtoull(argv[2], nullptr, 10)), tail);
    const auto head = item.head();
    return std::fwrite(head.data(), 1, head.size(), stdout) == head.size() &&
                   std::fwrite(tail.data(), 1, tail.size(), stdout) == tail.size()
               ? 0
               : 1;
  } catch (const cairn::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
