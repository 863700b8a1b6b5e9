// SPDX-License-Identifier: BSD-3-Clause
// A growing array of plain values on realloc: pages never touched cost nothing, and a large array grows by
// remapping instead of holding two copies.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace cairn::pickle {

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
  ~Pool() { std::free(data_); }

  std::size_t size() const { return size_; }
  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }
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
    const std::size_t wanted = std::max(size_ + count, capacity_ + capacity_ / 2 + 16);
    void* moved = std::realloc(static_cast<void*>(data_), wanted * sizeof(T));
    if (moved == nullptr) throw std::bad_alloc();
    data_ = static_cast<T*>(moved);
    capacity_ = wanted;
  }

  void swap(Pool& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  T* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace cairn::pickle
