// SPDX-License-Identifier: BSD-3-Clause
// Shards of tensors on devices: the bytes are those of tensors in the processor's memory, and copies go on
// while the file is written.
#include "engine/shard_writer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "device/cuda_memory.hpp"
#include "device/fake_cuda.hpp"
#include "failure_of.hpp"

namespace cairn {
namespace {

/// A file in memory, which tells of each write before it happens.
class MemoryFile final : public File {
 public:
  using OnWrite = std::function<void(std::uint64_t byte_offset, std::uint64_t bytes)>;
  explicit MemoryFile(OnWrite on_write = {}) : File("memory"), on_write_(std::move(on_write)) {}

  const Bytes& bytes() const { return bytes_; }

  std::uint64_t size() override { return bytes_.size(); }
  FileStatus status() override { return {FileType::regular, bytes_.size(), 0, 0, 0}; }
  void write(std::uint64_t byte_offset, std::span<const std::byte> from) override {
    const std::lock_guard lock(mutex_);
    if (on_write_) on_write_(byte_offset, from.size());
    std::ranges::copy(from, bytes_.begin() + static_cast<std::ptrdiff_t>(byte_offset));
  }
  void allocate(std::uint64_t size) override { bytes_.resize(size); }
  void read(std::uint64_t, std::span<std::byte>) override { refuse(); }
  std::uint64_t copy_from(File&, std::uint64_t, std::uint64_t, std::uint64_t) override { refuse(); }
  void sync() override {}
  void close() override {}
  bool try_lock() override { refuse(); }
  bool try_lock_shared() override { refuse(); }

 private:
  [[noreturn]] static void refuse() { fail(ErrorKind::io, "a file for writing"); }

  OnWrite on_write_;
  std::mutex mutex_;
  Bytes bytes_;
};

constexpr std::uint64_t kMiB = 1 << 20;

/// The same tensors on a device and in the processor's memory: large ones and small ones, of odd sizes.
struct Twins {
  Twins() {
    std::uint8_t value = 0;
    for (const std::int64_t bytes : {3 * kMiB + 5, std::uint64_t{1'000}, std::uint64_t{0}, 17 * kMiB}) {
      Bytes& content = contents.emplace_back(static_cast<std::size_t>(bytes));
      for (std::byte& b : content)
        b = static_cast<std::byte>(value = static_cast<std::uint8_t>(value * 5 + 37));
      TensorView view = TensorView::contiguous(DType::uint8, {bytes}, content.data());
      on_processor.push_back({view});
      view.data = cuda.allocate(content.size());
      view.device = &memory;
      std::ranges::copy(content, cuda.shadow_of(view.data));
      on_device.push_back({view});
    }
  }

  FakeCuda cuda{1, 32 << 20};
  CudaMemory memory{cuda.calls(), 0};
  std::deque<Bytes> contents;
  std::vector<ShardItem> on_processor, on_device;
};

// `staged`: bytes of room, 0: the tensors are looked at by those that write.
Bytes written(std::vector<ShardItem> items, int threads, std::uint64_t staged = 0) {
  ShardJob job(std::move(items));
  MemoryFile file;
  if (staged == 0) {
    job.write(file, threads);
    return file.bytes();
  }
  Bytes room(staged);
  StagingBuffers buffers(room);
  job.plan_staging(std::min(kShardPiece, std::bit_floor(staged / 2)), 0);
  std::thread filling([&] {
    try {
      job.stage(buffers, threads);
    } catch (const Error&) {  // those that write throw it too
    }
  });
  std::optional<Error> error;
  try {
    job.write(file, threads, &buffers);
  } catch (const Error& thrown) {
    error = thrown;
  }
  filling.join();
  if (error) throw Error(*error);
  EXPECT_EQ(buffers.taken_bytes(), job.staging_bytes());
  return file.bytes();
}

TEST(ShardJob, OfADeviceIsThatOfTheProcessorsMemory) {
  Twins twins;
  const Bytes wanted = written(twins.on_processor, 1);
  EXPECT_GT(wanted.size(), 20 * kMiB);
  for (const int threads : {1, 3}) {
    for (const std::uint64_t staged : {std::uint64_t{0}, 2 * kMiB, 9 * kMiB, 32 * kMiB}) {
      EXPECT_TRUE(written(twins.on_device, threads, staged) == wanted) << threads << " " << staged;
      EXPECT_TRUE(written(twins.on_processor, threads, staged) == wanted) << threads << " " << staged;
    }
  }
  EXPECT_EQ(twins.cuda.pending_operations(), 0);
}

// The device played here copies nothing before somebody waits for it: a copy that is on its way in a write
// was started before, and is waited for afterwards.
TEST(ShardJob, CopiesTheNextBytesOffTheDeviceWhileItWrites) {
  Twins twins;
  constexpr std::uint64_t kLargeWrite = 128 << 10, kPieces = 1 + 3;  // of 8 MiB
  int large_writes = 0, overlapped = 0;
  MemoryFile file([&](std::uint64_t, std::uint64_t bytes) {
    large_writes += bytes > kLargeWrite;
    const int pending = twins.cuda.pending_operations();
    EXPECT_LE(pending, 1) << "one call ahead";
    overlapped += bytes > kLargeWrite && pending == 1;
  });
  ShardJob job(twins.on_device);
  job.write(file, 1);
  EXPECT_GT(large_writes, 70);
  // but for the last write of a piece, and the first one of a tensor, which the head goes with
  EXPECT_GE(overlapped, large_writes - static_cast<int>(kPieces) - 2);
  EXPECT_EQ(twins.cuda.stream_count(), 1u) << "the pinned buffers of one thread";
}

TEST(ShardJob, ThatFailsInTheMiddleLeavesNoCopyOnItsWay) {
  Twins twins;
  for (const std::uint64_t staged : {std::uint64_t{0}, 2 * kMiB, 32 * kMiB}) {
    for (const int copy : {0, 1, 7, 40}) {
      twins.cuda.fail_copy(copy);
      const Error error = failure_of([&] { written(twins.on_device, 2, staged); });
      EXPECT_EQ(error.kind(), ErrorKind::io);
      EXPECT_TRUE(contains(error, "cudaMemcpyAsync failed on CUDA device 0")) << error.what();
      EXPECT_EQ(twins.cuda.pending_operations(), 0);
    }
  }
  int writes = 0;
  MemoryFile full([&](std::uint64_t, std::uint64_t) {
    if (++writes == 5) fail(ErrorKind::io, "disk full");
  });
  ShardJob job(twins.on_device);
  EXPECT_TRUE(contains(failure_of([&] { job.write(full, 1); }), "disk full"));
  EXPECT_EQ(twins.cuda.pending_operations(), 0);
}

// The room is a tenth of the payload: when the fifth write fails most of it is not copied yet.
TEST(ShardJob, ThatCannotWriteEndsTheStaging) {
  Twins twins;
  ShardJob job(twins.on_processor);
  Bytes room(2 * kMiB);
  StagingBuffers buffers(room);
  job.plan_staging(kMiB, 0);
  std::thread filling([&] { job.stage(buffers, 2); });
  std::atomic<int> writes = 0;
  MemoryFile full([&](std::uint64_t, std::uint64_t) {
    if (++writes >= 5) fail(ErrorKind::io, "disk full");
  });
  EXPECT_TRUE(contains(failure_of([&] { job.write(full, 2, &buffers); }), "disk full"));
  filling.join();
  EXPECT_LT(buffers.taken_bytes(), job.staging_bytes() / 2);
  EXPECT_EQ(buffers.stopped(), StagingBuffers::Side::drain);
}

}  // namespace
}  // namespace cairn
