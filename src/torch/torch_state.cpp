// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

#include "cairn/torch.hpp"
#include "torch/guarded.hpp"

namespace cairn {
namespace {

std::string reason_against(const at::Tensor& tensor) {
  if (tensor.is_nested()) return "nested tensor";
  if (tensor.is_quantized()) return "quantized tensor";
  if (tensor.layout() != at::kStrided) return c10::str("tensor of layout ", tensor.layout());
  if (tensor.is_meta()) return "meta tensor, without memory";
  if (!tensor.has_storage()) return "tensor without storage";
  return {};
}

void require_dense(std::string_view name, const at::Tensor& tensor) {
  if (!tensor.defined()) fail(ErrorKind::invalid_argument, "'{}': an undefined tensor", escape_name(name));
  const std::string reason = guarded(name, [&] { return reason_against(tensor); });
  if (!reason.empty()) fail(ErrorKind::unsupported, "'{}': a {}", escape_name(name), reason);
}

/// Whether a box of the rank has gaps in a contiguous local tensor: one of several in its row.
bool cut_with_gaps(const at::Tensor& tensor, const TensorLayout& layout, int rank) {
  bool gaps = false;
  const TensorView whole = TensorView::contiguous(DType::uint8, tensor.sizes().vec(), nullptr);
  layout.for_each_box(rank, [&](const OwnedBox& owned) {
    gaps |= owned.box.ndim() != whole.sizes.size() ||
            !whole.part(owned.local_offsets, owned.box.sizes).is_contiguous();
  });
  return gaps;
}

bool needs_copy(const at::Tensor& tensor, const TensorLayout& layout, int rank) {
  if (tensor.is_conj() || tensor.is_neg()) return true;
  return !tensor.is_cpu() && (!tensor.is_contiguous() || cut_with_gaps(tensor, layout, rank));
}

/// The same elements as integers of their size: copy_ knows those, on every device.
at::Tensor as_bits(const at::Tensor& tensor) {
  switch (tensor.element_size()) {
    case 1:
      return tensor.view(at::kByte);
    case 2:
      return tensor.view(at::kShort);
    case 4:
      return tensor.view(at::kInt);
    case 8:
      return tensor.view(at::kLong);
    default:
      return tensor;
  }
}

void copy_elements(std::string_view name, const at::Tensor& from, const at::Tensor& to) {
  const at::NoGradGuard no_grad;
  guarded(name, [&] {
    const bool as_values = from.is_conj() || from.is_neg() || to.is_conj() || to.is_neg();
    const at::Tensor target = as_values ? to : as_bits(to);
    target.copy_(as_values ? from : as_bits(from));
  });
}

}  // namespace

TorchState::TorchState(const Communicator& comm, MemoryOf memory)
    : TorchState(comm.rank(), comm.size(), std::move(memory)) {}
TorchState::TorchState(int rank, int ranks, MemoryOf memory)
    : ranks_(ranks), memory_of_(std::move(memory)), live_(rank) {}

DeviceMemory* TorchState::memory_of(at::Device device) {
  auto found = std::ranges::find(memories_, device, &decltype(memories_)::value_type::first);
  if (found == memories_.end()) found = memories_.emplace(found, device, memory_of_(device));
  return found->second.get();
}

TensorView TorchState::view_of(std::string_view name, const at::Tensor& given, const TensorLayout& layout) {
  require_dense(name, given);
  const DType dtype = with_context([&] { return "'" + escape_name(name) + "'"; },
                                   [&] { return dtype_of(given.scalar_type()); });
  return guarded(name, [&] {
    at::Tensor tensor = given;
    if (!given.is_cpu()) memory_of(given.device());
    if (needs_copy(given, layout, live_.description().rank())) {
      tensor = at::empty(given.sizes(), at::TensorOptions(given.scalar_type()));
      copied_.push_back({std::string(name), given, tensor});
    }
    tensors_.emplace_back(name, given);
    TensorView view{dtype, tensor.sizes().vec(), tensor.strides().vec(),
                    static_cast<std::byte*>(tensor.mutable_data_ptr()), nullptr};
    if (tensor.is_contiguous()) view = TensorView::contiguous(dtype, view.sizes, view.data);
    if (!tensor.is_cpu()) view.device = memory_of(tensor.device());
    return view;
  });
}

TensorLayout TorchState::layout_for(std::string_view name, const at::Tensor& tensor,
                                    const LayoutOf& layout_of) const {
  require_dense(name, tensor);
  if (layout_of) return layout_of(name, tensor);
  return TensorLayout::replicated(tensor.sizes().vec(), ranks_);
}

void TorchState::add_tensor(std::string_view name, const TensorLayout& layout, const at::Tensor& local,
                            std::span<const NameCut> cuts) {
  live_.add_tensor(name, layout, view_of(name, local, layout), cuts);
}

void TorchState::add_tensor(std::string_view name, const at::Tensor& tensor) {
  add_tensor(name, layout_for(name, tensor, {}), tensor);
}

const Object& TorchState::object(std::string_view name) const {
  const RankState& entries = live_.description();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!entries.is_tensor(i) && entries.name(i) == name) return live_.object(i);
  }
  fail(ErrorKind::not_found, "the state has no object '{}'", escape_name(name));
}

void TorchState::wait_for_devices() const {
  for (const auto& [device, memory] : memories_) {
    guarded(device.str(), [&device = device] {
      c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    });
  }
}

void TorchState::prepare_save() {
  wait_for_devices();
  for (const Copied& pair : copied_) copy_elements(pair.name, pair.tensor, pair.copy);
}

void TorchState::prepare_load() {
  // What the checkpoint lacks keeps its values, in copies too.
  prepare_save();
  for (const auto& [name, tensor] : tensors_) {
    if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes)
      fail(ErrorKind::invalid_argument, "'{}': elements share memory: nothing can be loaded into it",
           escape_name(name));
  }
}

void TorchState::finish_load() {
  for (const Copied& pair : copied_) copy_elements(pair.name, pair.copy, pair.tensor);
  wait_for_devices();
}

}  // namespace cairn
