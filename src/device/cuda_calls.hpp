// SPDX-License-Identifier: BSD-3-Clause
// The calls of the CUDA runtime that Cairn makes, as a table: of the real library, or of one that plays it.
// Declared here, so that no header of CUDA is needed: functions as in cuda_runtime_api.h, constants as in
// driver_types.h of CUDA 11 to 13.
#pragma once

#include <cstddef>

namespace cairn {

using CudaStatus = int;                  // cudaError_t
using CudaStream = struct CUstream_st*;  // cudaStream_t
using CudaEvent = struct CUevent_st*;    // cudaEvent_t

inline constexpr CudaStatus kCudaSuccess = 0;           // cudaSuccess
inline constexpr CudaStatus kCudaNotReady = 600;        // cudaErrorNotReady
inline constexpr int kCudaHostToDevice = 1;             // cudaMemcpyHostToDevice, of cudaMemcpyKind
inline constexpr int kCudaDeviceToHost = 2;             // cudaMemcpyDeviceToHost
inline constexpr unsigned kCudaStreamNonBlocking = 1;   // cudaStreamNonBlocking
inline constexpr unsigned kCudaEventDisableTiming = 2;  // cudaEventDisableTiming

struct CudaCalls {
  const char* (*get_error_string)(CudaStatus);
  CudaStatus (*get_device_count)(int*);
  CudaStatus (*get_device)(int*);  // of the calling thread
  CudaStatus (*set_device)(int);
  CudaStatus (*stream_create)(CudaStream*, unsigned flags);  // cudaStreamCreateWithFlags
  CudaStatus (*stream_destroy)(CudaStream);
  CudaStatus (*stream_synchronize)(CudaStream);
  CudaStatus (*stream_query)(CudaStream);
  CudaStatus (*event_create)(CudaEvent*, unsigned flags);  // cudaEventCreateWithFlags
  CudaStatus (*event_destroy)(CudaEvent);
  CudaStatus (*event_record)(CudaEvent, CudaStream);
  CudaStatus (*event_synchronize)(CudaEvent);
  CudaStatus (*event_query)(CudaEvent);
  CudaStatus (*memcpy_async)(void* to, const void* from, std::size_t bytes, int kind, CudaStream);
  CudaStatus (*host_malloc)(void**, std::size_t bytes);  // cudaMallocHost: pinned
  CudaStatus (*host_free)(void*);                        // cudaFreeHost
  CudaStatus (*device_malloc)(void**, std::size_t bytes);
  CudaStatus (*device_free)(void*);
};

/// Local, any thread. Of the runtime on this machine, loaded at the first call. Throws unsupported where
/// there is none.
const CudaCalls& cuda_runtime();

/// Throws io with the call, the device and CUDA's text unless `status` is kCudaSuccess.
void check_cuda(const CudaCalls& cuda, CudaStatus status, const char* call, int device);

/// Makes `device` the calling thread's, and the one before again at the end.
class OnCudaDevice {
 public:
  OnCudaDevice(const CudaCalls& cuda, int device);
  ~OnCudaDevice();
  OnCudaDevice(const OnCudaDevice&) = delete;
  OnCudaDevice& operator=(const OnCudaDevice&) = delete;

 private:
  const CudaCalls& cuda_;
  int before_ = 0;
};

}  // namespace cairn
