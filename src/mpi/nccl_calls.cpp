// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/nccl_calls.hpp"

#include "base/fail.hpp"
#include "device/shared_library.hpp"

namespace cairn {
namespace {

constexpr const char* kNames[] = {"libnccl.so.2", "libnccl.so"};

void require_version(const NcclCalls& calls) {
  int version = 0;
  check_nccl(calls, calls.get_version(&version), "ncclGetVersion");
  if (version < kLeastNcclVersion)
    fail(ErrorKind::unsupported, "NCCL has version {}: {} expected at least", version, kLeastNcclVersion);
}

NcclCalls load() {
  const SharedLibrary library("NCCL", "CAIRN_NCCL", kNames);
  NcclCalls calls{};
  library.find("ncclGetErrorString", calls.get_error_string);
  library.find("ncclGetVersion", calls.get_version);
  require_version(calls);
  library.find("ncclGetUniqueId", calls.get_unique_id);
  library.find("ncclCommInitRankConfig", calls.comm_init);
  library.find("ncclCommAbort", calls.comm_abort);
  library.find("ncclCommGetAsyncError", calls.comm_get_async_error);
  library.find("ncclGroupStart", calls.group_start);
  library.find("ncclGroupEnd", calls.group_end);
  library.find("ncclBroadcast", calls.broadcast);
  library.find("ncclSend", calls.send);
  library.find("ncclRecv", calls.receive);
  return calls;
}

}  // namespace

const NcclCalls& nccl_library() {
  static const NcclCalls calls = load();  // after a failure the next call looks again
  return calls;
}

void check_nccl(const NcclCalls& nccl, NcclStatus status, const char* call) {
  if (status == kNcclSuccess || status == kNcclInProgress) return;
  fail(ErrorKind::io, "{} failed: {}", call, nccl.get_error_string(status));
}

}  // namespace cairn
