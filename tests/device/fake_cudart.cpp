// SPDX-License-Identifier: BSD-3-Clause
// The played device as a shared library with the names of the CUDA runtime: for tests of how that is loaded.
#include "device/fake_cuda.hpp"

using cairn::CudaEvent;
using cairn::CudaStatus;
using cairn::CudaStream;

namespace {

const cairn::CudaCalls& played() {
  static cairn::FakeCuda cuda(1);
  return cuda.calls();
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
const char* cudaGetErrorString(CudaStatus status) { return played().get_error_string(status); }
CudaStatus cudaGetDeviceCount(int* count) { return played().get_device_count(count); }
CudaStatus cudaGetDevice(int* device) { return played().get_device(device); }
CudaStatus cudaSetDevice(int device) { return played().set_device(device); }
CudaStatus cudaStreamCreateWithFlags(CudaStream* stream, unsigned flags) {
  return played().stream_create(stream, flags);
}
CudaStatus cudaStreamDestroy(CudaStream stream) { return played().stream_destroy(stream); }
CudaStatus cudaStreamSynchronize(CudaStream stream) { return played().stream_synchronize(stream); }
CudaStatus cudaStreamQuery(CudaStream stream) { return played().stream_query(stream); }
CudaStatus cudaEventCreateWithFlags(CudaEvent* event, unsigned flags) {
  return played().event_create(event, flags);
}
CudaStatus cudaEventDestroy(CudaEvent event) { return played().event_destroy(event); }
CudaStatus cudaEventRecord(CudaEvent event, CudaStream stream) {
  return played().event_record(event, stream);
}
CudaStatus cudaEventSynchronize(CudaEvent event) { return played().event_synchronize(event); }
CudaStatus cudaEventQuery(CudaEvent event) { return played().event_query(event); }
CudaStatus cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, CudaStream stream) {
  return played().memcpy_async(to, from, bytes, kind, stream);
}
CudaStatus cudaMallocHost(void** memory, std::size_t bytes) { return played().host_malloc(memory, bytes); }
CudaStatus cudaFreeHost(void* memory) { return played().host_free(memory); }
CudaStatus cudaMalloc(void** memory, std::size_t bytes) { return played().device_malloc(memory, bytes); }
CudaStatus cudaFree(void* memory) { return played().device_free(memory); }
}
#pragma GCC visibility pop
