// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda_memory.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "device/fake_cuda.hpp"
#include "failure_of.hpp"

namespace cairn {
namespace {

constexpr std::size_t kPiece = kCudaBufferBytes;

std::vector<std::byte> numbered(std::size_t bytes, unsigned first = 0) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>((first + i * 7 + i / 251) & 0xff);
  return out;
}

/// Sizes around those of the buffers.
std::vector<std::size_t> sizes() {
  return {0, 1, kPiece - 1, kPiece, kPiece + 1, 2 * kPiece, 2 * kPiece + 1, 5 * kPiece - 3};
}

TEST(CudaMemory, CopiesBytesIn) {
  FakeCuda cuda;
  CudaMemory memory(cuda.calls(), 1);
  for (const std::size_t size : sizes()) {
    const auto bytes = numbered(size);
    std::byte* const at = cuda.allocate(size + 2);
    memory.copy_in(bytes, at + 1);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), cuda.shadow_of(at + 1))) << size;
    EXPECT_EQ(*cuda.shadow_of(at), std::byte{0xcd});
    EXPECT_EQ(*cuda.shadow_of(at + 1 + size), std::byte{0xcd});
  }
  EXPECT_EQ(cuda.pending_operations(), 0);
}

TEST(CudaMemory, CopiesBytesOut) {
  FakeCuda cuda;
  CudaMemory memory(cuda.calls(), 0);
  for (const std::size_t size : sizes()) {
    const auto bytes = numbered(size);
    std::byte* const at = cuda.allocate(size);
    std::ranges::copy(bytes, cuda.shadow_of(at));
    std::vector<std::byte> got(size);
    memory.copy_out(at, got);
    EXPECT_EQ(got, bytes) << size;
  }
}

TEST(CudaMemory, StartsACopyThatEndsLater) {
  FakeCuda cuda;
  CudaMemory memory(cuda.calls(), 0);
  const auto bytes = numbered(3 * kPiece);
  std::byte* const at = cuda.allocate(bytes.size());
  std::ranges::copy(bytes, cuda.shadow_of(at));
  const auto copy = memory.start_copy_out(at, bytes.size());
  EXPECT_EQ(cuda.pending_operations(), 2) << "a piece in each buffer";
  std::vector<std::byte> got(bytes.size());
  copy->finish(got);
  EXPECT_EQ(got, bytes);
}

TEST(CudaMemory, ACopyThatIsGivenUpIsOverBeforeItsBuffersAreUsedAgain) {
  FakeCuda cuda;
  CudaMemory memory(cuda.calls(), 0);
  std::byte* const at = cuda.allocate(kPiece);
  memory.start_copy_out(at, kPiece).reset();
  EXPECT_EQ(cuda.pending_operations(), 0);
}

TEST(CudaMemory, HasAStreamForEachCopyAtOnceAndKeepsIt) {
  FakeCuda cuda;
  {
    CudaMemory memory(cuda.calls(), 0);
    std::byte* const at = cuda.allocate(16);
    for (int round = 0; round < 3; ++round) {
      const auto first = memory.start_copy_out(at, 16), second = memory.start_copy_out(at, 16);
    }
    EXPECT_EQ(cuda.stream_count(), 2u);
  }
  EXPECT_EQ(cuda.open_things(), 0u);
}

TEST(CudaMemory, IsForManyThreads) {
  FakeCuda cuda;
  CudaMemory memory(cuda.calls(), 0);
  std::vector<std::byte*> places;
  for (int i = 0; i < 4; ++i) places.push_back(cuda.allocate(3 * kPiece));
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < 4; ++i)
      threads.emplace_back([&, i] { memory.copy_in(numbered(3 * kPiece, i), places[i]); });
  }
  for (unsigned i = 0; i < 4; ++i) {
    std::vector<std::byte> got(3 * kPiece);
    memory.copy_out(places[i], got);
    EXPECT_EQ(got, numbered(3 * kPiece, i));
  }
}

TEST(CudaMemory, LeavesTheThreadsDeviceAsItWas) {
  FakeCuda cuda;
  CudaMemory memory(cuda.calls(), 1);
  memory.copy_in(numbered(8), cuda.allocate(8));
  int device = -1;
  cuda.calls().get_device(&device);
  EXPECT_EQ(device, 0);
}

/// Calls that `body` makes; each in turn fails, and is an Error that says so. Afterwards all works again.
template <class Body>
void expect_each_failure(FakeCuda& cuda, const Body& body) {
  body();  // makes the lane
  const int before = cuda.counted();
  body();
  const int calls = cuda.counted() - before;
  ASSERT_GT(calls, 5);
  for (int n = 0; n < calls; ++n) {
    cuda.fail_call(n);
    const Error error = failure_of(body);
    EXPECT_EQ(error.kind(), ErrorKind::io) << n;
    EXPECT_NE(error.message().find(FakeCuda::kBadText), std::string::npos) << error.what();
    EXPECT_EQ(cuda.pending_operations(), 0) << n;
  }
  body();
}

TEST(CudaMemory, EveryCallThatFailsIsAnError) {
  FakeCuda cuda;
  std::byte* const at = cuda.allocate(4 * kPiece);
  auto bytes = numbered(4 * kPiece);
  CudaMemory old(cuda.calls(), 1);
  expect_each_failure(cuda, [&] { old.copy_in(bytes, at); });
  expect_each_failure(cuda, [&] { old.copy_out(at, bytes); });
  EXPECT_EQ(bytes, numbered(4 * kPiece));
}

TEST(CudaMemory, ALaneThatCannotBeMadeIsAnErrorAndLeavesNothing) {
  FakeCuda cuda;
  std::byte* const at = cuda.allocate(16);
  std::vector<std::byte> got(16);
  for (int n = 0; n < 7; ++n) {
    CudaMemory memory(cuda.calls(), 1);
    cuda.fail_call(n);
    EXPECT_EQ(failure_of([&] { memory.copy_out(at, got); }).kind(), ErrorKind::io) << n;
    EXPECT_EQ(cuda.open_things(), 0u) << n;
  }
}

TEST(CudaMemory, WithoutADeviceIsUnsupported) {
  FakeCuda none(0);
  const Error error = failure_of([&] { CudaMemory(none.calls(), 0); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  EXPECT_NE(error.message().find("no CUDA-capable device"), std::string::npos) << error.what();
}

TEST(CudaMemory, OfADeviceThatIsNotThereIsUnsupported) {
  FakeCuda cuda(2);
  for (const int device : {-1, 2}) {
    const Error error = failure_of([&] { CudaMemory(cuda.calls(), device); });
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  }
}

}  // namespace
}  // namespace cairn
