// SPDX-License-Identifier: BSD-3-Clause

#include <ATen/native/TensorFactories.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <atomic>
#include <cstring>
#include <mutex>

#include "cairn/torch.hpp"
#include "failure_of.hpp"
#include "torch/host_device.hpp"

namespace cairn {
namespace {

std::atomic<int> waits = 0;

struct HostGuard final : c10::impl::NoOpDeviceGuardImpl<at::kPrivateUse1> {
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void synchronizeDevice(c10::DeviceIndex) const override { ++waits; }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, HostGuard)

at::Tensor at_address(void* data, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type,
                      at::Device device, std::function<void(void*)> release) {
  return at::for_blob(data, sizes)
      .strides(strides)
      .deleter(std::move(release))
      .options(at::TensorOptions(type).device(device))
      .target_device(device)
      .make_tensor();
}

at::Tensor empty_there(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                       std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat>) {
  const at::Tensor here = at::empty(size, type.value_or(at::kFloat));
  return at_address(here.mutable_data_ptr(), size, here.strides(), here.scalar_type(), host_device(),
                    [here](void*) {});
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  elements_of(to).copy_(elements_of(from));
  return to;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty_there);
  library.impl("_copy_from", &copy_from);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", static_cast<at::Tensor (*)(const at::Tensor&, at::IntArrayRef)>(&at::native::view));
}

}  // namespace

at::Tensor elements_of(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  return at_address(tensor.mutable_data_ptr(), tensor.sizes(), tensor.strides(), tensor.scalar_type(),
                    at::kCPU, [tensor](void*) {});
}

at::Tensor on_host_device(const at::Tensor& tensor) {
  const at::Tensor there = at::empty(tensor.sizes(), tensor.options().device(host_device()));
  elements_of(there).copy_(tensor);
  return there;
}

int waits_for_host_device() { return waits; }

namespace {

std::vector<std::byte> bytes_of(const at::Tensor& tensor) {
  const at::Tensor here = tensor.contiguous();
  const auto* data = static_cast<const std::byte*>(here.const_data_ptr());
  return {data, data + here.nbytes()};
}

/// What an I/O thread does.
std::vector<std::byte> fetched(const TensorView& view) {
  std::vector<std::byte> bytes(view.byte_count());
  view.device->copy_out(view.data, bytes);
  return bytes;
}

at::Tensor numbered() { return at::arange(12, at::kDouble).view({3, 4}); }

TEST(DeviceTensors, AreSeenOnTheDeviceAndCopiedByIt) {
  const at::Tensor tensor = on_host_device(numbered());
  TorchState state(0, 1);
  state.add_tensor("w", tensor);
  state.prepare_save();
  const TensorView& view = state.live().view(0, 0);
  ASSERT_NE(view.device, nullptr);
  EXPECT_EQ(view.data, tensor.const_data_ptr());
  EXPECT_EQ(fetched(view), bytes_of(numbered()));

  const double loaded = 77;
  view.device->copy_in(std::as_bytes(std::span(&loaded, 1)), view.data + 5 * sizeof loaded);
  EXPECT_EQ(elements_of(tensor)[1][1].item<double>(), 77);
}

/// Saves and loads through a copy that the processor has, as the views see it.
void expect_copied_on_the_processor(TorchState& state, const at::Tensor& tensor) {
  state.prepare_save();
  const TensorView& view = state.live().view(0, 0);
  ASSERT_EQ(view.device, nullptr);
  const at::Tensor copy = at::from_blob(view.data, tensor.sizes(), at::TensorOptions(tensor.scalar_type()));
  EXPECT_TRUE(copy.equal(elements_of(tensor)));

  state.prepare_load();
  const at::Tensor loaded = copy.clone() + 100;
  copy.copy_(loaded);
  state.finish_load();
  EXPECT_TRUE(elements_of(tensor).equal(loaded));
}

TEST(DeviceTensors, WithGapsHaveACopyOnTheProcessor) {
  const at::Tensor tensor = on_host_device(numbered()).as_strided({2, 3}, {1, 4}, 1);
  TorchState state(0, 1);
  state.add_tensor("w", tensor);
  expect_copied_on_the_processor(state, tensor);
}

/// Rank 0 has columns 0, 1 and 5.
TensorLayout two_boxes_in_a_row() {
  return TensorLayout::on_mesh({3, 9}, Mesh({4}), {Placement::strided_shard(1, 2)});
}

TEST(DeviceTensors, OfSeveralBoxesInARowHaveACopyOnTheProcessor) {
  const auto columns = two_boxes_in_a_row();
  const at::Tensor tensor = on_host_device(at::arange(9, at::kDouble).view({3, 3}));
  ASSERT_EQ(columns.boxes(0).size(), 2u);
  TorchState state(0, 4);
  state.add_tensor("w", columns, tensor);
  EXPECT_EQ(state.live().description().box_count(0), 2u);
  expect_copied_on_the_processor(state, tensor);
}

TEST(DeviceTensors, WithoutACopyAreRefusedWhereABoxHasGaps) {
  LiveState state(0);
  TensorView view = TensorView::contiguous(DType::uint8, {3, 3}, nullptr);
  const auto memory = device_memory(at::kCPU);
  std::byte bytes[9];
  view.data = bytes;
  view.device = memory.get();
  const auto columns = two_boxes_in_a_row();
  const Error error = failure_of([&] { state.add_tensor("w", columns, view); });
  EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
  EXPECT_EQ(state.size(), 0u);
}

TEST(DeviceTensors, AreWaitedForBeforeTheyAreRead) {
  TorchState state(0, 1);
  state.add_tensor("w", on_host_device(numbered()));
  const int before = waits_for_host_device();
  state.prepare_save();
  EXPECT_EQ(waits_for_host_device(), before + 1);
}

TEST(DeviceTensors, ShareOneMemoryOfADeviceThatAProgramMayBring) {
  struct Counting final : DeviceMemory {
    void copy_out(const std::byte* from, std::span<std::byte> into) override {
      std::memcpy(into.data(), from, into.size());
      ++copies;
    }
    void copy_in(std::span<const std::byte>, std::byte*) override {}
    int copies = 0;
  };
  const auto memory = std::make_shared<Counting>();
  int asked = 0;
  TorchState state(0, 1, [&](at::Device device) {
    EXPECT_EQ(device, host_device());
    ++asked;
    return memory;
  });
  state.add_tensor("v", on_host_device(numbered()));
  state.add_tensor("w", on_host_device(numbered()));
  EXPECT_EQ(fetched(state.live().view(1, 0)), bytes_of(numbered()));
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(memory->copies, 1);
}

TEST(DeviceMemory, OfTheProcessorCopiesBytes) {
  const auto memory = device_memory(at::kCPU);
  std::vector<std::byte> from(1000, std::byte{3}), into(1000), back(1000);
  memory->copy_out(from.data(), into);
  memory->copy_in(into, back.data());
  EXPECT_EQ(back, from);
}

}  // namespace
}  // namespace cairn
