// SPDX-License-Identifier: BSD-3-Clause
// Row: torch. at::Tensor and states of libtorch as live states. The only public header that includes
// libtorch. Link cairn::torch. No exception of libtorch leaves these functions: they become Errors.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/async_save.hpp"
#include "cairn/communicator.hpp"
#include "cairn/consolidate_live.hpp"
#include "cairn/layout.hpp"
#include "cairn/live_state.hpp"
#include "cairn/load.hpp"
#include "cairn/object.hpp"
#include "cairn/save.hpp"
#include "cairn/tensor.hpp"

namespace torch {
template <typename Key, typename Value>
class OrderedDict;
namespace nn {
class Module;
}
}  // namespace torch

namespace cairn {

/// Local. Throws unsupported, by name, for quantized types and others without a dense layout.
DType dtype_of(at::ScalarType type);
at::ScalarType scalar_type_of(DType dtype);

/// Local. The memory of a device as Cairn's I/O threads copy it. Of CUDA devices: cuda_memory() of
/// device.hpp, with pinned buffers. Of others, and where the CUDA runtime cannot be loaded: through
/// Tensor::copy_, on the current stream of the thread.
std::shared_ptr<DeviceMemory> device_memory(at::Device device);

/// Local. The whole tensor, on the processor. Takes the bytes over when it is given them by std::move.
at::Tensor to_tensor(LoadedTensor tensor);
/// Local. Lists, tuples and dicts with their items; Data becomes a tensor of uint8. Stored is unsupported.
c10::IValue to_ivalue(const Object& object);

/// A live state of tensors of libtorch, as one rank has them. It holds the tensors, so that what its views
/// see stays alive. Local but for what says otherwise; one thread at a time.
///
/// A tensor is taken as it is, in any strides, with or without requires_grad, when the processor can address
/// it, and when it is contiguous on a device. Others (gaps on a device, the conjugate or negative bit) have a
/// copy in the processor's memory: prepare_save() fills it, finish_load() writes it back. save() and load()
/// below call them. Refused, naming tensor and reason: undefined, sparse, quantized, nested and meta tensors
/// (unsupported, or invalid_argument).
class TorchState {
 public:
  /// What a tensor that comes without a layout has. The name is the flat one, such as "model.l.weight".
  using LayoutOf = std::function<TensorLayout(std::string_view name, const at::Tensor& local)>;
  /// The memory of a device other than the processor; by default device_memory().
  using MemoryOf = std::function<std::shared_ptr<DeviceMemory>(at::Device device)>;

  /// For this rank of `comm`, which need not outlive it. Local.
  explicit TorchState(const Communicator& comm, MemoryOf memory = device_memory);
  TorchState(int rank, int ranks, MemoryOf memory = device_memory);

  // --- building: throws as LiveState does ----------------------------------------------------------------
  /// The rank's part of a tensor, of the shape layout.local_shape(rank). A rank that owns nothing of it gives
  /// an empty tensor of the type.
  void add_tensor(std::string_view name, const TensorLayout& layout, const at::Tensor& local,
                  std::span<const NameCut> cuts = {});
  /// The same whole tensor on all ranks.
  void add_tensor(std::string_view name, const at::Tensor& tensor);
  /// A nested state, as torch.save writes it from C++ or a ScriptModule gives it: a dict whose keys are str,
  /// int, bool or None and whose values are tensors, None, bool, int, float, str, lists, tuples and dicts.
  /// Names and objects as in LiveState::add_tree(). Tensors in tuples are unsupported.
  void add_tree(const c10::IValue& dict, const LayoutOf& layout_of = {});
  /// Its values are `name`.key each, with two keys on the path: name, and the key as it is.
  void add_dict(std::string_view name, const torch::OrderedDict<std::string, at::Tensor>& dict,
                const LayoutOf& layout_of = {});
  /// Parameters and buffers, named as in Python's Module.state_dict() below `name`.
  void add_module(std::string_view name, const torch::nn::Module& module, const LayoutOf& layout_of = {});
  /// Objects, and tensors in memory that is not libtorch's.
  LiveState& live() { return live_; }

  // --- looking -------------------------------------------------------------------------------------------
  const LiveState& live() const { return live_; }
  /// By flat name; not_found. After a load: what was loaded.
  const Object& object(std::string_view name) const;

  // --- around a save or a load of live() -----------------------------------------------------------------
  /// Waits for the devices, and fills the copies.
  void prepare_save();
  /// The same, as what a load leaves alone keeps its values. Throws invalid_argument for tensors whose
  /// elements share memory (expand()).
  void prepare_load();
  /// Writes the copies back.
  void finish_load();

 private:
  struct Copied {
    std::string name;
    at::Tensor tensor, copy;
  };
  TensorView view_of(std::string_view name, const at::Tensor& tensor, const TensorLayout& layout);
  DeviceMemory* memory_of(at::Device device);
  TensorLayout layout_for(std::string_view name, const at::Tensor& tensor, const LayoutOf& layout_of) const;
  LiveNode tensor_node(std::string_view name, const at::Tensor& tensor, const LayoutOf& layout_of);
  LiveNode node(const std::string& name, const c10::IValue& value, const LayoutOf& layout_of);
  LiveNode::Dict dict_node(const std::string& name, const c10::IValue& value, const LayoutOf& layout_of);
  void wait_for_devices() const;

  int ranks_;
  MemoryOf memory_of_;
  LiveState live_;
  std::vector<std::pair<std::string, at::Tensor>> tensors_;
  std::vector<Copied> copied_;
  std::vector<std::pair<at::Device, std::shared_ptr<DeviceMemory>>> memories_;
};

/// Collective. As save(), consolidate() and load() of live states, with what they need before and after.
SaveReport save(Communicator& comm, FileSystem& files, TorchState& state, const std::string& directory,
                const SaveOptions& options = {});
/// As AsyncSaver::save(): the state's tensors may change when it returns.
AsyncSave save(AsyncSaver& saver, TorchState& state, const std::string& directory,
               const SaveOptions& options = {});
ConsolidateReport consolidate(Communicator& comm, FileSystem& files, TorchState& state,
                              const std::string& path, const ConsolidateOptions& options = {},
                              DeviceLink* device_link = nullptr);
LoadReport load(Communicator& comm, FileSystem& files, const std::string& path, TorchState& state,
                const LoadOptions& options = {});

}  // namespace cairn
