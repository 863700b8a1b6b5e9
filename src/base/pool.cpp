// SPDX-License-Identifier: BSD-3-Clause
#include "base/pool.hpp"

#include <sys/mman.h>

namespace cairn {
namespace {

constexpr std::size_t kHugePage = 2 << 20;

bool is_large(std::size_t bytes) { return bytes >= 2 * kHugePage; }

/// Fresh memory on a huge page's border: pages move between such borders whole.
void* map_aligned(std::size_t bytes) {
  void* mapped = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(mapped);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(begin) % kHugePage;
  if (before > 0) munmap(begin, before);
  if (before < kHugePage) munmap(begin + before + bytes, kHugePage - before);
  madvise(begin + before, bytes, MADV_HUGEPAGE);  // advice: may be refused
  return begin + before;
}

}  // namespace

void* grow_pool(void* data, std::size_t old_bytes, std::size_t& bytes) {
  if (!is_large(bytes)) {
    void* moved = std::realloc(data, bytes);
    if (moved == nullptr) throw std::bad_alloc();
    return moved;
  }
  bytes = (bytes + kHugePage - 1) & ~(kHugePage - 1);
  void* const grown = map_aligned(bytes);
  if (is_large(old_bytes)) {
    if (mremap(data, old_bytes, old_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, grown) == MAP_FAILED) {
      munmap(grown, bytes);
      throw std::bad_alloc();
    }
  } else if (data != nullptr) {
    std::memcpy(grown, data, old_bytes);
    std::free(data);
  }
  return grown;
}

void free_pool(void* data, std::size_t bytes) {
  if (is_large(bytes)) {
    munmap(data, bytes);
  } else {
    std::free(data);
  }
}

void expect_large(const void* data, std::size_t bytes) {
  if (!is_large(bytes)) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t first = (begin + kHugePage - 1) & ~(kHugePage - 1);
  const std::uintptr_t last = (begin + bytes) & ~(kHugePage - 1);
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace cairn
