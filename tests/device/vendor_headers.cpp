// SPDX-License-Identifier: BSD-3-Clause
// The tables of calls beside the vendor's own headers: compiled where these are (launch/gpu_check.sh
// --headers), never run. A function of another signature, or a constant of another value, does not compile.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "mpi/nccl_calls.hpp"

namespace cairn {
namespace {

/// How a type crosses a call: enumerations as the integers they are.
template <class T, bool is_enum = std::is_enum_v<T>>
struct AsPassed {
  using Type = T;
};
template <class T>
struct AsPassed<T, true> {
  static_assert(sizeof(T) == sizeof(int));
  using Type = int;
};
template <class T>
struct AsPassed<T*, false> {
  using Pointed = typename AsPassed<std::remove_const_t<T>>::Type;
  using Type = std::conditional_t<std::is_const_v<T>, const Pointed, Pointed>*;
};
template <>
struct AsPassed<ncclUniqueId, false> {
  static_assert(sizeof(ncclUniqueId) == sizeof(NcclUniqueId) &&
                alignof(ncclUniqueId) == alignof(NcclUniqueId));
  using Type = NcclUniqueId;
};
// Later versions have more fields; NCCL goes by the size that it is told.
template <>
struct AsPassed<ncclConfig_t, false> {
  static_assert(offsetof(ncclConfig_t, size) == offsetof(NcclConfig, size));
  static_assert(offsetof(ncclConfig_t, magic) == offsetof(NcclConfig, magic));
  static_assert(offsetof(ncclConfig_t, version) == offsetof(NcclConfig, version));
  static_assert(offsetof(ncclConfig_t, blocking) == offsetof(NcclConfig, blocking));
  static_assert(sizeof(ncclConfig_t) >= sizeof(NcclConfig));
  using Type = NcclConfig;
};

template <class Result, class... Arguments>
typename AsPassed<Result>::Type (*passed(Result (*)(Arguments...)))(typename AsPassed<Arguments>::Type...);

using Allocate = cudaError_t (*)(void**, std::size_t);  // among overloads

#define CAIRN_SAME(function, field) static_assert(std::is_same_v<decltype(passed(function)), decltype(field)>)

CAIRN_SAME(&cudaGetErrorString, CudaCalls::get_error_string);
CAIRN_SAME(&cudaGetDeviceCount, CudaCalls::get_device_count);
CAIRN_SAME(&cudaGetDevice, CudaCalls::get_device);
CAIRN_SAME(&cudaSetDevice, CudaCalls::set_device);
CAIRN_SAME(&cudaStreamCreateWithFlags, CudaCalls::stream_create);
CAIRN_SAME(&cudaStreamDestroy, CudaCalls::stream_destroy);
CAIRN_SAME(&cudaStreamSynchronize, CudaCalls::stream_synchronize);
CAIRN_SAME(&cudaStreamQuery, CudaCalls::stream_query);
CAIRN_SAME(static_cast<cudaError_t (*)(cudaEvent_t*, unsigned)>(&cudaEventCreateWithFlags),
           CudaCalls::event_create);
CAIRN_SAME(&cudaEventDestroy, CudaCalls::event_destroy);
CAIRN_SAME(&cudaEventRecord, CudaCalls::event_record);
CAIRN_SAME(&cudaEventSynchronize, CudaCalls::event_synchronize);
CAIRN_SAME(&cudaEventQuery, CudaCalls::event_query);
CAIRN_SAME(&cudaMemcpyAsync, CudaCalls::memcpy_async);
CAIRN_SAME(static_cast<Allocate>(&cudaMallocHost), CudaCalls::host_malloc);
CAIRN_SAME(&cudaFreeHost, CudaCalls::host_free);
CAIRN_SAME(static_cast<Allocate>(&cudaMalloc), CudaCalls::device_malloc);
CAIRN_SAME(&cudaFree, CudaCalls::device_free);
static_assert(cudaSuccess == kCudaSuccess && cudaErrorNotReady == kCudaNotReady);
static_assert(cudaMemcpyHostToDevice == kCudaHostToDevice && cudaMemcpyDeviceToHost == kCudaDeviceToHost);
static_assert(cudaStreamNonBlocking == kCudaStreamNonBlocking);
static_assert(cudaEventDisableTiming == kCudaEventDisableTiming);

CAIRN_SAME(&ncclGetErrorString, NcclCalls::get_error_string);
CAIRN_SAME(&ncclGetVersion, NcclCalls::get_version);
CAIRN_SAME(&ncclGetUniqueId, NcclCalls::get_unique_id);
CAIRN_SAME(&ncclCommInitRankConfig, NcclCalls::comm_init);
CAIRN_SAME(&ncclCommAbort, NcclCalls::comm_abort);
CAIRN_SAME(&ncclCommGetAsyncError, NcclCalls::comm_get_async_error);
CAIRN_SAME(&ncclGroupStart, NcclCalls::group_start);
CAIRN_SAME(&ncclGroupEnd, NcclCalls::group_end);
CAIRN_SAME(&ncclBroadcast, NcclCalls::broadcast);
CAIRN_SAME(&ncclSend, NcclCalls::send);
CAIRN_SAME(&ncclRecv, NcclCalls::receive);
static_assert(ncclSuccess == kNcclSuccess && ncclInProgress == kNcclInProgress && ncclUint8 == kNcclBytes);
static_assert(NCCL_CONFIG_UNDEF_INT == NcclConfig{}.cga_cluster_size);
static_assert(NCCL_VERSION(2, 14, 0) == kLeastNcclVersion && NCCL_VERSION_CODE >= kLeastNcclVersion);

}  // namespace
}  // namespace cairn
