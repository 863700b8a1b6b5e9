// SPDX-License-Identifier: BSD-3-Clause
// A table of the CUDA runtime over the processor's memory. Whoever takes an address of it for the processor's
// crashes; what a stream is given happens only when somebody waits for it, as late as can be: a wait that is
// forgotten shows. Each call can be made to fail.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/cuda_calls.hpp"

namespace cairn {

/// One at a time in a process: the table's functions find it.
class FakeCuda {
 public:
  static constexpr CudaStatus kBadStatus = 700;
  static constexpr const char* kBadText = "an illegal memory access was encountered";
  /// True once it has happened; false: not yet.
  using Operation = std::function<bool()>;

  explicit FakeCuda(int devices = 2, std::size_t bytes = 64 << 20) : devices_(devices), bytes_(bytes) {
    const int file = memfd_create("fake_cuda", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) throw std::runtime_error("memfd");
    address_ = map(file, PROT_NONE);
    shadow_ = map(file, PROT_READ | PROT_WRITE);
    close(file);
    here_ = this;
  }
  ~FakeCuda() {
    here_ = nullptr;
    munmap(address_, bytes_);
    munmap(shadow_, bytes_);
  }
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;

  const CudaCalls& calls() const { return kCalls; }

  /// A device's address, with bytes 0xcd.
  std::byte* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    return allocate_locked(bytes);
  }
  /// What lies at a device's address.
  std::byte* shadow_of(const void* address) const {
    return shadow_ + (static_cast<const std::byte*>(address) - address_);
  }
  bool owns(const void* address) const {
    const auto* at = static_cast<const std::byte*>(address);
    return at >= address_ && at < address_ + bytes_;
  }

  /// The n-th call from now on, from 0, fails; those that end something never do.
  void fail_call(int n) {
    const std::lock_guard lock(mutex_);
    calls_left_ = n;
  }
  /// The same, of the calls of cudaMemcpyAsync alone.
  void fail_copy(int n) {
    const std::lock_guard lock(mutex_);
    copies_left_ = n;
  }
  /// Calls that could have failed so far.
  int counted() const {
    const std::lock_guard lock(mutex_);
    return counted_;
  }
  /// Streams, events, pinned buffers and cudaMalloc's that were made and not given back.
  std::size_t open_things() const {
    const std::lock_guard lock(mutex_);
    return streams_.size() + events_.size() + pinned_.size() + rooms_;
  }
  std::size_t stream_count() const {
    const std::lock_guard lock(mutex_);
    return streams_.size();
  }
  int pending_operations() const {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const auto& [stream, operations] : streams_) count += operations.size();
    return static_cast<int>(count);
  }

  /// For what plays a library on top: queued like a copy.
  void enqueue(CudaStream stream, Operation operation) {
    const std::lock_guard lock(mutex_);
    streams_.at(stream).push_back({next_++, std::move(operation)});
  }
  /// Forgets what a stream has still to do.
  void clear(CudaStream stream) {
    const std::lock_guard lock(mutex_);
    if (const auto found = streams_.find(stream); found != streams_.end()) found->second.clear();
  }

 private:
  std::byte* allocate_locked(std::size_t bytes) {
    std::byte* const at = address_ + used_;
    used_ += (bytes + 255) / 256 * 256;
    if (used_ > bytes_) throw std::runtime_error("the fake device is full");
    std::memset(shadow_of(at), 0xcd, bytes);
    return at;
  }

  struct Queued {
    std::uint64_t number;
    Operation run;
  };

  std::byte* map(int file, int protection) const {
    void* const at = mmap(nullptr, bytes_, protection, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) throw std::runtime_error("mmap");
    return static_cast<std::byte*>(at);
  }

  /// Runs `body` under the lock unless this call is to fail.
  template <class Body>
  static CudaStatus call(const Body& body) {
    FakeCuda& cuda = *here_;
    const std::lock_guard lock(cuda.mutex_);
    ++cuda.counted_;
    if (cuda.calls_left_ >= 0 && cuda.calls_left_-- == 0) return kBadStatus;
    return body(cuda);
  }
  /// The same for calls that never fail.
  template <class Body>
  static CudaStatus end(const Body& body) {
    const std::lock_guard lock(here_->mutex_);
    body(*here_);
    return kCudaSuccess;
  }

  // Of a stream, what comes before `before`. False: something has to wait.
  bool run(CudaStream stream, std::uint64_t before) {
    auto& operations = streams_.at(stream);
    while (!operations.empty() && operations.front().number < before) {
      if (!operations.front().run()) return false;
      operations.pop_front();
    }
    return true;
  }

  static const char* get_error_string(CudaStatus status) {
    return status == kBadStatus ? kBadText : status == 100 ? "no CUDA-capable device is detected" : "?";
  }
  static CudaStatus get_device_count(int* count) {
    return call([&](FakeCuda& cuda) {
      *count = cuda.devices_;
      return cuda.devices_ > 0 ? kCudaSuccess : 100;
    });
  }
  static CudaStatus get_device(int* device) {
    return call([&](FakeCuda&) {
      *device = current_;
      return kCudaSuccess;
    });
  }
  static CudaStatus set_device(int device) {
    const auto set = [&](FakeCuda&) {
      current_ = device;
      return kCudaSuccess;
    };
    return device == 0 ? end(set) : call(set);  // the way back from a device
  }
  static CudaStatus stream_create(CudaStream* stream, unsigned) {
    return call([&](FakeCuda& cuda) {
      *stream = reinterpret_cast<CudaStream>(++cuda.handles_);
      cuda.streams_[*stream];
      return kCudaSuccess;
    });
  }
  static CudaStatus stream_destroy(CudaStream stream) {
    return end([&](FakeCuda& cuda) { cuda.streams_.erase(stream); });
  }
  static CudaStatus stream_synchronize(CudaStream stream) {
    return call([&](FakeCuda& cuda) {
      while (!cuda.run(stream, ~std::uint64_t{0})) {
      }
      return kCudaSuccess;
    });
  }
  static CudaStatus stream_query(CudaStream stream) {
    return call(
        [&](FakeCuda& cuda) { return cuda.run(stream, ~std::uint64_t{0}) ? kCudaSuccess : kCudaNotReady; });
  }
  static CudaStatus event_create(CudaEvent* event, unsigned) {
    return call([&](FakeCuda& cuda) {
      *event = reinterpret_cast<CudaEvent>(++cuda.handles_);
      cuda.events_[*event];
      return kCudaSuccess;
    });
  }
  static CudaStatus event_destroy(CudaEvent event) {
    return end([&](FakeCuda& cuda) { cuda.events_.erase(event); });
  }
  static CudaStatus event_record(CudaEvent event, CudaStream stream) {
    return call([&](FakeCuda& cuda) {
      cuda.events_.at(event) = {stream, cuda.next_};
      return kCudaSuccess;
    });
  }
  static CudaStatus event_synchronize(CudaEvent event) {
    return call([&](FakeCuda& cuda) {
      const auto [stream, before] = cuda.events_.at(event);
      while (stream != nullptr && !cuda.run(stream, before)) {
      }
      return kCudaSuccess;
    });
  }
  static CudaStatus event_query(CudaEvent event) {
    return call([&](FakeCuda& cuda) {
      const auto [stream, before] = cuda.events_.at(event);
      return stream == nullptr || cuda.run(stream, before) ? kCudaSuccess : kCudaNotReady;
    });
  }
  static CudaStatus memcpy_async(void* to, const void* from, std::size_t bytes, int kind, CudaStream stream) {
    return call([&](FakeCuda& cuda) {
      if (cuda.copies_left_ >= 0 && cuda.copies_left_-- == 0) return kBadStatus;
      void* const target = kind == kCudaHostToDevice ? cuda.shadow_of(to) : to;
      const void* const source = kind == kCudaDeviceToHost ? cuda.shadow_of(from) : from;
      const bool is_right = cuda.owns(kind == kCudaHostToDevice ? to : from) &&
                            cuda.pinned_.contains(kind == kCudaHostToDevice ? const_cast<void*>(from) : to);
      if (!is_right) return kBadStatus;
      cuda.streams_.at(stream).push_back({cuda.next_++, [=] {
                                            std::memcpy(target, source, bytes);
                                            return true;
                                          }});
      return kCudaSuccess;
    });
  }
  static CudaStatus host_malloc(void** memory, std::size_t bytes) {
    return call([&](FakeCuda& cuda) {
      auto room = std::make_unique<std::byte[]>(bytes);
      *memory = room.get();
      cuda.pinned_[*memory] = std::move(room);
      return kCudaSuccess;
    });
  }
  static CudaStatus host_free(void* memory) {
    return end([&](FakeCuda& cuda) { cuda.pinned_.erase(memory); });
  }
  static CudaStatus device_malloc(void** memory, std::size_t bytes) {
    return call([&](FakeCuda& cuda) {
      *memory = cuda.allocate_locked(bytes);
      ++cuda.rooms_;
      return kCudaSuccess;
    });
  }
  static CudaStatus device_free(void*) {
    return end([](FakeCuda& cuda) { --cuda.rooms_; });
  }

  static inline FakeCuda* here_ = nullptr;
  static inline thread_local int current_ = 0;
  static constexpr CudaCalls kCalls{
      get_error_string,   get_device_count, get_device,   set_device,    stream_create, stream_destroy,
      stream_synchronize, stream_query,     event_create, event_destroy, event_record,  event_synchronize,
      event_query,        memcpy_async,     host_malloc,  host_free,     device_malloc, device_free};

  const int devices_;
  const std::size_t bytes_;
  std::byte* address_ = nullptr;  // what is given out
  std::byte* shadow_ = nullptr;   // the same memory, for the fake
  mutable std::mutex mutex_;
  std::size_t used_ = 0;
  std::uintptr_t handles_ = 0;
  std::uint64_t next_ = 0;
  int calls_left_ = -1, copies_left_ = -1, counted_ = 0;
  std::size_t rooms_ = 0;  // of cudaMalloc
  std::map<CudaStream, std::deque<Queued>> streams_;
  std::map<CudaEvent, std::pair<CudaStream, std::uint64_t>> events_;
  std::map<void*, std::unique_ptr<std::byte[]>> pinned_;
};

}  // namespace cairn
