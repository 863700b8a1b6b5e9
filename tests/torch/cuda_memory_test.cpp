// SPDX-License-Identifier: BSD-3-Clause
// Which memory the CUDA devices of libtorch have.
#include <gtest/gtest.h>

#include <cstdlib>

#include "cairn/torch.hpp"
#include "device/cuda_memory.hpp"

namespace cairn {
namespace {

bool goes_through_pinned_buffers(at::Device device) {
  return dynamic_cast<CudaMemory*>(device_memory(device).get()) != nullptr;
}

TEST(CudaDeviceMemory, GoesThroughPinnedBuffersWhereTheRuntimeCanBeLoaded) {
  if (std::getenv("CAIRN_CUDART") == nullptr) GTEST_SKIP() << "no runtime is named";
  EXPECT_TRUE(goes_through_pinned_buffers({at::kCUDA, 0}));
  EXPECT_FALSE(goes_through_pinned_buffers({at::kCUDA, 1})) << "there is one";
  EXPECT_FALSE(goes_through_pinned_buffers(at::kCPU));
}

TEST(CudaDeviceMemory, IsLibtorchsWhereItCannot) {
  if (std::getenv("CAIRN_CUDART") != nullptr) GTEST_SKIP() << "a runtime is loaded once for all";
  setenv("CAIRN_CUDART", "libcairn-no-cudart.so", 1);
  const auto memory = device_memory({at::kCUDA, 0});
  unsetenv("CAIRN_CUDART");
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(dynamic_cast<CudaMemory*>(memory.get()), nullptr);
}

}  // namespace
}  // namespace cairn
