// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/torch.hpp"
#include "parallel/agree.hpp"

namespace cairn {

SaveReport save(Communicator& comm, FileSystem& files, TorchState& state, const std::string& directory,
                const SaveOptions& options) {
  on_all_ranks("preparing the tensors", comm, [&] { state.prepare_save(); });
  return save(comm, files, std::as_const(state).live(), directory, options);
}

AsyncSave save(AsyncSaver& saver, TorchState& state, const std::string& directory,
               const SaveOptions& options) {
  on_all_ranks("preparing the tensors", saver.communicator(), [&] { state.prepare_save(); });
  return saver.save(std::as_const(state).live(), directory, options);
}

ConsolidateReport consolidate(Communicator& comm, FileSystem& files, TorchState& state,
                              const std::string& path, const ConsolidateOptions& options,
                              DeviceLink* device_link) {
  on_all_ranks("preparing the tensors", comm, [&] { state.prepare_save(); });
  return consolidate(comm, files, std::as_const(state).live(), path, options, device_link);
}

LoadReport load(Communicator& comm, FileSystem& files, const std::string& path, TorchState& state,
                const LoadOptions& options) {
  on_all_ranks("preparing the tensors", comm, [&] { state.prepare_load(); });
  LoadReport report = load(comm, files, path, state.live(), options);
  on_all_ranks("filling the tensors", comm, [&] { state.finish_load(); });
  return report;
}

}  // namespace cairn
