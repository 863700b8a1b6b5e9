// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "cairn/torch.hpp"
#include "failure_of.hpp"

namespace cairn {
namespace {

std::vector<DType> all_types() {
  std::vector<DType> types;
  for (int i = 0; i <= static_cast<int>(DType::bits16); ++i) types.push_back(static_cast<DType>(i));
  return types;
}

TEST(TorchTypes, EveryTypeHasOneOfLibtorchWithItsSizeAndBack) {
  std::set<at::ScalarType> seen;
  for (const DType type : all_types()) {
    const at::ScalarType scalar = scalar_type_of(type);
    EXPECT_EQ(dtype_of(scalar), type);
    EXPECT_EQ(c10::elementSize(scalar), element_size(type)) << info(type).name;
    seen.insert(scalar);
  }
  EXPECT_EQ(seen.size(), 27u);
}

TEST(TorchTypes, NamesArePythons) {
  for (const DType type : all_types())
    EXPECT_EQ(info(type).name, c10::getDtypeNames(scalar_type_of(type)).first);
}

TEST(TorchTypes, QuantizedOnesAreRefusedByName) {
  const Error error = failure_of([] { dtype_of(at::kQInt8); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  EXPECT_TRUE(contains(error, "QInt8")) << error.what();
}

TEST(LoadedTensors, OfEveryTypeBecomeTensorsOverTheirOwnBytes) {
  for (const DType type : all_types()) {
    LoadedTensor loaded{"w", type, {2, 3}, std::vector<std::byte>(6 * element_size(type))};
    for (std::size_t i = 0; i < loaded.bytes.size(); ++i) loaded.bytes[i] = static_cast<std::byte>(i & 1);
    const std::vector<std::byte> bytes = loaded.bytes;
    const void* data = loaded.bytes.data();
    const at::Tensor tensor = to_tensor(std::move(loaded));
    EXPECT_EQ(tensor.scalar_type(), scalar_type_of(type));
    EXPECT_EQ(tensor.sizes(), (at::IntArrayRef{2, 3}));
    EXPECT_EQ(tensor.const_data_ptr(), data);
    EXPECT_EQ(std::memcmp(tensor.const_data_ptr(), bytes.data(), bytes.size()), 0);
  }
}

TEST(LoadedTensors, GivenAsACopyLeavesTheGivenAlone) {
  LoadedTensor loaded{"w", DType::uint8, {2}, {std::byte{1}, std::byte{2}}};
  to_tensor(loaded).fill_(9);
  EXPECT_EQ(loaded.bytes[0], std::byte{1});
}

TEST(LoadedTensors, EmptyOnesAndScalarsKeepTheirShape) {
  EXPECT_EQ(to_tensor({"w", DType::float32, {0, 4}, {}}).sizes(), (at::IntArrayRef{0, 4}));
  const at::Tensor scalar = to_tensor({"w", DType::uint8, {}, {std::byte{7}}});
  EXPECT_EQ(scalar.dim(), 0);
  EXPECT_EQ(scalar.item<int>(), 7);
}

}  // namespace
}  // namespace cairn
