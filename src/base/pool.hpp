// SPDX-License-Identifier: BSD-3-Clause
// A growing array of plain values on realloc: new elements are left as they come, pages never touched cost
// nothing, and a large array grows by remapping instead of holding two copies. From a few MiB on the kernel
// is asked for huge pages: faulting in small ones takes longer than filling them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

/// Storage of a Pool, `old_bytes` of it kept; `bytes` may become more. Throws std::bad_alloc.
void* grow_pool(void* data, std::size_t old_bytes, std::size_t& bytes);
void free_pool(void* data, std::size_t bytes);
/// Asks for huge pages where memory was reserved and not touched yet; nothing for small amounts.
void expect_large(const void* data, std::size_t bytes);
/// Room for `count` elements that are about to be added; what is not used costs nothing.
template <class T>
void reserve_large(std::vector<T>& values, std::size_t count) {
  values.reserve(count);
  expect_large(values.data(), values.capacity() * sizeof(T));
}

template <class T>
class Pool {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Pool() = default;
  Pool(Pool&& other) noexcept { swap(other); }
  Pool& operator=(Pool&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Pool() { free_pool(data_, bytes_); }
  void swap(Pool& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(bytes_, other.bytes_);
  }

  std::size_t size() const { return size_; }
  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }
  std::span<T> all() { return {data_, size_}; }
  T& back() { return data_[size_ - 1]; }
  std::span<const T> span(std::size_t first, std::size_t count) const { return {data_ + first, count}; }
  std::size_t memory_bytes() const { return size_ * sizeof(T); }

  /// Index of the first of `count` new elements with undefined content.
  std::size_t extend(std::size_t count) {
    if (count > capacity_ - size_) grow(count);
    return std::exchange(size_, size_ + count);
  }
  void push(T value) {
    const std::size_t last = extend(1);  // moves data_
    data_[last] = value;
  }
  void shrink(std::size_t size) { size_ = size; }
  const T* data() const { return data_; }

  /// Values to copy from, which may lie in this pool: stays valid while it grows.
  struct Source {
    std::span<const T> outside;
    std::size_t first, count;  // inside, if `outside` is empty
  };
  Source source(std::span<const T> values) const {
    const T* begin = values.data();
    if (begin < data_ || begin >= data_ + size_) return {values, 0, 0};
    return {{}, static_cast<std::size_t>(begin - data_), values.size()};
  }
  /// Overwrites existing elements.
  void copy(std::size_t at, const Source& from) {
    const std::span<const T> values = from.outside.empty() ? span(from.first, from.count) : from.outside;
    if (!values.empty()) std::memmove(static_cast<void*>(data_ + at), values.data(), values.size_bytes());
  }

 private:
  void grow(std::size_t count) {
    std::size_t bytes = std::max(size_ + count, capacity_ + capacity_ / 2 + 16) * sizeof(T);
    data_ = static_cast<T*>(grow_pool(data_, bytes_, bytes));
    bytes_ = bytes;
    capacity_ = bytes / sizeof(T);
  }

  T* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0, bytes_ = 0;
};

}  // namespace cairn
