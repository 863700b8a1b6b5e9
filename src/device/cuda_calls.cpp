// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda_calls.hpp"

#include "base/fail.hpp"
#include "device/shared_library.hpp"

namespace cairn {
namespace {

constexpr const char* kNames[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so"};

CudaCalls load() {
  const SharedLibrary library("the CUDA runtime", "CAIRN_CUDART", kNames);
  CudaCalls calls{};
  library.find("cudaGetErrorString", calls.get_error_string);
  library.find("cudaGetDeviceCount", calls.get_device_count);
  library.find("cudaGetDevice", calls.get_device);
  library.find("cudaSetDevice", calls.set_device);
  library.find("cudaStreamCreateWithFlags", calls.stream_create);
  library.find("cudaStreamDestroy", calls.stream_destroy);
  library.find("cudaStreamSynchronize", calls.stream_synchronize);
  library.find("cudaStreamQuery", calls.stream_query);
  library.find("cudaEventCreateWithFlags", calls.event_create);
  library.find("cudaEventDestroy", calls.event_destroy);
  library.find("cudaEventRecord", calls.event_record);
  library.find("cudaEventSynchronize", calls.event_synchronize);
  library.find("cudaEventQuery", calls.event_query);
  library.find("cudaMemcpyAsync", calls.memcpy_async);
  library.find("cudaMallocHost", calls.host_malloc);
  library.find("cudaFreeHost", calls.host_free);
  library.find("cudaMalloc", calls.device_malloc);
  library.find("cudaFree", calls.device_free);
  return calls;
}

}  // namespace

const CudaCalls& cuda_runtime() {
  static const CudaCalls calls = load();  // after a failure the next call looks again
  return calls;
}

void check_cuda(const CudaCalls& cuda, CudaStatus status, const char* call, int device) {
  if (status == kCudaSuccess) return;
  fail(ErrorKind::io, "{} failed on CUDA device {}: {}", call, device, cuda.get_error_string(status));
}

OnCudaDevice::OnCudaDevice(const CudaCalls& cuda, int device) : cuda_(cuda) {
  check_cuda(cuda, cuda.get_device(&before_), "cudaGetDevice", device);
  check_cuda(cuda, cuda.set_device(device), "cudaSetDevice", device);
}

OnCudaDevice::~OnCudaDevice() { cuda_.set_device(before_); }

}  // namespace cairn
