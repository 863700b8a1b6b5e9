// SPDX-License-Identifier: BSD-3-Clause
// The calls of NCCL that Cairn makes, as a table: of the real library, or of one that plays it. Declared
// here, so that its header is not needed: functions, types and constants as in nccl.h of NCCL 2.14 and later.
#pragma once

#include <climits>
#include <cstddef>

#include "device/cuda_calls.hpp"

namespace cairn {

using NcclStatus = int;             // ncclResult_t
using NcclComm = struct ncclComm*;  // ncclComm_t

inline constexpr NcclStatus kNcclSuccess = 0;     // ncclSuccess
inline constexpr NcclStatus kNcclInProgress = 7;  // ncclInProgress
inline constexpr int kNcclBytes = 1;              // ncclUint8, of ncclDataType_t
inline constexpr int kLeastNcclVersion = 21400;   // NCCL_VERSION(2, 14, 0): communicators that do not block

struct NcclUniqueId {  // ncclUniqueId
  char internal[128];
};

/// ncclConfig_t of 2.14, which later versions take, by its size and version. The last field is of 2.17, where
/// 2.14 has padding.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = kLeastNcclVersion;
  int blocking = 0;
  int cga_cluster_size = INT_MIN;  // NCCL_CONFIG_UNDEF_INT
};
static_assert(sizeof(NcclConfig) == 24);

struct NcclCalls {
  const char* (*get_error_string)(NcclStatus);
  NcclStatus (*get_version)(int*);
  NcclStatus (*get_unique_id)(NcclUniqueId*);
  NcclStatus (*comm_init)(NcclComm*, int ranks, NcclUniqueId, int rank,
                          NcclConfig*);  // ncclCommInitRankConfig
  NcclStatus (*comm_abort)(NcclComm);
  NcclStatus (*comm_get_async_error)(NcclComm, NcclStatus*);
  NcclStatus (*group_start)();
  NcclStatus (*group_end)();
  NcclStatus (*broadcast)(const void* from, void* into, std::size_t count, int type, int root, NcclComm,
                          CudaStream);
  NcclStatus (*send)(const void* from, std::size_t count, int type, int to, NcclComm, CudaStream);
  NcclStatus (*receive)(void* into, std::size_t count, int type, int from, NcclComm, CudaStream);  // ncclRecv
};

/// Local, any thread. Of the library on this machine, loaded at the first call. Throws unsupported where
/// there is none, or an older one than kLeastNcclVersion.
const NcclCalls& nccl_library();

/// Throws io with the call and NCCL's text unless `status` is kNcclSuccess or kNcclInProgress.
void check_nccl(const NcclCalls& nccl, NcclStatus status, const char* call);

}  // namespace cairn
