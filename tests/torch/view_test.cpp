// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>

#include "cairn/torch.hpp"
#include "failure_of.hpp"

namespace cairn {
namespace {

/// The only view of the only entry.
const TensorView& view_in(const TorchState& state) { return state.live().view(0, 0); }

/// Where an element lies, by the rule of tensor.hpp.
std::byte* element(const TensorView& view, std::span<const std::int64_t> index) {
  const std::vector<std::int64_t> one(index.size(), 1);
  return view.part(index, one).data;
}

std::vector<double> values(const TensorView& view) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < view.sizes[0]; ++i) {
    for (std::int64_t j = 0; j < view.sizes[1]; ++j) {
      double value;
      std::memcpy(&value, element(view, std::vector{i, j}), sizeof value);
      all.push_back(value);
    }
  }
  return all;
}

std::vector<double> values(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().contiguous().view(-1);
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

at::Tensor numbered(std::int64_t rows, std::int64_t columns) {
  return at::arange(rows * columns, at::kDouble).view({rows, columns});
}

TEST(TorchViews, SeeTheTensorsOwnElementsInAnyStrides) {
  const at::Tensor whole = numbered(6, 8);
  const std::vector<at::Tensor> tensors{whole,
                                        whole.t(),
                                        whole.slice(0, 1, 6, 2),
                                        whole.slice(1, 3, 8, 3),
                                        whole.t().slice(0, 2, 7),
                                        whole.slice(0, 5, 6),
                                        whole[2].unsqueeze(1),
                                        whole[2].unsqueeze(0).expand({3, 8})};
  for (const at::Tensor& tensor : tensors) {
    TorchState state(0, 1);
    state.add_tensor("w", tensor);
    state.prepare_save();
    EXPECT_EQ(values(view_in(state)), values(tensor)) << tensor.sizes() << tensor.strides();
    EXPECT_EQ(view_in(state).data, tensor.const_data_ptr()) << "copied";
    EXPECT_EQ(view_in(state).device, nullptr);
  }
}

TEST(TorchViews, OfParametersThatWantGradientsAreNoCopies) {
  at::Tensor tensor = numbered(2, 2).requires_grad_();
  TorchState state(0, 1);
  state.add_tensor("w", tensor);
  state.prepare_load();
  std::memset(view_in(state).data, 0, 8);
  state.finish_load();
  EXPECT_EQ(values(tensor), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_TRUE(tensor.is_leaf() && tensor.requires_grad());
}

TEST(TorchViews, KeepTheMemoryAlive) {
  bool freed = false;
  std::vector<double> memory{1, 2};
  {
    TorchState state(0, 1);
    state.add_tensor("w", at::from_blob(
                              memory.data(), {1, 2}, [&](void*) { freed = true; }, at::kDouble));
    EXPECT_FALSE(freed);
    EXPECT_EQ(values(view_in(state)), memory);
  }
  EXPECT_TRUE(freed);
}

TEST(TorchViews, APartOfATensorHasTheBoxThatTheLayoutGives) {
  const at::Tensor local = numbered(2, 3);
  TorchState state(1, 3);
  state.add_tensor("w", TensorLayout::sharded({5, 3}, 0, 3), local);
  EXPECT_EQ(state.live().description().box(0, 0).offsets[0], 2);
  EXPECT_EQ(values(view_in(state)), values(local));

  TorchState last(2, 3);
  const Error error = failure_of([&] { last.add_tensor("w", TensorLayout::sharded({5, 3}, 0, 3), local); });
  EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
  EXPECT_TRUE(contains(error, "'w'")) << error.what();
}

TEST(TorchViews, ATensorWithoutALayoutIsOnAllRanks) {
  TorchState state(2, 3);
  state.add_tensor("w", numbered(2, 3));
  EXPECT_EQ(state.live().description().box_count(0), 1u);
  EXPECT_EQ(state.live().description().box(0, 0).sizes[1], 3);
}

// --- bits
// ----------------------------------------------------------------------------------------------------

using Complex = c10::complex<double>;

TEST(ConjugateBit, IsResolvedForASaveAndWrittenThroughByALoad) {
  const at::Tensor plain = at::complex(numbered(1, 2), numbered(1, 2) + 5);
  const at::Tensor tensor = plain.conj();
  ASSERT_TRUE(tensor.is_conj());
  TorchState state(0, 1);
  state.add_tensor("w", tensor);
  state.prepare_save();
  Complex seen[2];
  std::memcpy(seen, view_in(state).data, sizeof seen);
  EXPECT_EQ(seen[1], Complex(1, -6));

  state.prepare_load();
  seen[1] = Complex(3, 4);
  std::memcpy(view_in(state).data, seen, sizeof seen);
  state.finish_load();
  EXPECT_EQ(tensor[0][1].item<Complex>(), Complex(3, 4));
  EXPECT_EQ(plain[0][1].item<Complex>(), Complex(3, -4));
  EXPECT_EQ(plain[0][0].item<Complex>(), Complex(0, 5));
}

TEST(NegativeBit, IsResolvedForASaveAndWrittenThroughByALoad) {
  const at::Tensor plain = at::complex(numbered(1, 2), numbered(1, 2) + 5);
  const at::Tensor tensor = at::imag(plain.conj());
  ASSERT_TRUE(tensor.is_neg());
  TorchState state(0, 1);
  state.add_tensor("w", tensor);
  state.prepare_save();
  EXPECT_EQ(values(view_in(state)), (std::vector<double>{-5, -6}));

  state.prepare_load();
  const double loaded[2] = {1, 2};
  std::memcpy(view_in(state).data, loaded, sizeof loaded);
  state.finish_load();
  EXPECT_EQ(plain[0][1].item<Complex>(), Complex(1, -2));
}

TEST(ALoad, ThatLeavesATensorOutLeavesItsValues) {
  const at::Tensor tensor = at::complex(numbered(1, 2), numbered(1, 2) + 5).conj();
  const at::Tensor before = tensor.clone();
  TorchState state(0, 1);
  state.add_tensor("w", tensor);
  state.prepare_load();
  state.finish_load();
  EXPECT_TRUE(tensor.equal(before));
}

TEST(ALoad, IntoElementsThatShareMemoryIsRefused) {
  TorchState state(0, 1);
  state.add_tensor("a.w", numbered(1, 2).expand({3, 2}));
  const Error error = failure_of([&] { state.prepare_load(); });
  EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
  EXPECT_TRUE(contains(error, "'a.w'")) << error.what();
}

// --- refusals
// ------------------------------------------------------------------------------------------------

TEST(Refused, ByNameIsWhatHasNoDenseMemory) {
  const at::Tensor dense = at::eye(3);
  const std::vector<std::pair<at::Tensor, std::string>> cases{
      {dense.to_sparse(), "Sparse"},
      {dense.to_sparse_csr(), "SparseCsr"},
      {at::quantize_per_tensor(dense, 0.1, 0, at::kQInt8), "quantized"},
      {at::empty({3}, at::TensorOptions(at::kMeta)), "meta"},
      {at::_nested_tensor_from_tensor_list({dense}), "nested"},
  };
  for (const auto& [tensor, reason] : cases) {
    TorchState state(0, 1);
    const Error error = failure_of([&] { state.add_tensor("a.w", tensor); });
    EXPECT_EQ(error.kind(), ErrorKind::unsupported) << reason;
    EXPECT_TRUE(contains(error, "'a.w'") && contains(error, reason)) << error.what();
    EXPECT_EQ(state.live().size(), 0u);
  }
}

TEST(Refused, IsAnUndefinedTensor) {
  TorchState state(0, 1);
  EXPECT_EQ(failure_of([&] { state.add_tensor("w", at::Tensor()); }).kind(), ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace cairn
