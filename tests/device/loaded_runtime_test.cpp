// SPDX-License-Identifier: BSD-3-Clause
// A CUDA runtime that is loaded from a file: in a process of its own, with CAIRN_CUDART.
#include <gtest/gtest.h>

#include <cstdlib>

#include "cairn/device.hpp"
#include "device/cuda_memory.hpp"

namespace cairn {
namespace {

TEST(LoadedRuntime, HasEachFunctionInItsPlace) {
  if (std::getenv("CAIRN_CUDART") == nullptr) GTEST_SKIP() << "no runtime is named";
  const auto memory = cuda_memory(0);
  void* room = nullptr;
  const CudaCalls& cuda = cuda_runtime();
  constexpr std::size_t kBytes = 3 * kCudaBufferBytes + 7;
  check_cuda(cuda, cuda.device_malloc(&room, kBytes), "cudaMalloc", 0);
  std::vector<std::byte> from(kBytes), into(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) from[i] = static_cast<std::byte>(i * 7 + i / 253);
  memory->copy_in(from, static_cast<std::byte*>(room));
  memory->start_copy_out(static_cast<std::byte*>(room), kBytes)->finish(into);
  EXPECT_EQ(into, from);

  CudaStream stream = nullptr;  // what copies do not use
  CudaEvent event = nullptr;
  EXPECT_EQ(cuda.stream_create(&stream, kCudaStreamNonBlocking), kCudaSuccess);
  EXPECT_EQ(cuda.event_create(&event, kCudaEventDisableTiming), kCudaSuccess);
  EXPECT_EQ(cuda.event_record(event, stream), kCudaSuccess);
  EXPECT_EQ(cuda.stream_query(stream), kCudaSuccess);
  EXPECT_EQ(cuda.event_query(event), kCudaSuccess);
  EXPECT_EQ(cuda.event_destroy(event), kCudaSuccess);
  EXPECT_EQ(cuda.stream_destroy(stream), kCudaSuccess);
  EXPECT_EQ(cuda.device_free(room), kCudaSuccess);
}

}  // namespace
}  // namespace cairn
