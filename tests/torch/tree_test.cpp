// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "cairn/torch.hpp"
#include "failure_of.hpp"

namespace cairn {
namespace {

using c10::IValue;
using Names = std::vector<std::string>;

c10::impl::GenericDict dict(std::vector<std::pair<IValue, IValue>> items) {
  c10::impl::GenericDict result(c10::AnyType::get(), c10::AnyType::get());
  for (auto& [key, value] : items) result.insert(key, value);
  return result;
}
c10::impl::GenericList list(std::vector<IValue> items) {
  c10::impl::GenericList result(c10::AnyType::get());
  for (IValue& item : items) result.push_back(std::move(item));
  return result;
}

Names names(const TorchState& state) {
  Names all;
  for (std::size_t i = 0; i < state.live().size(); ++i) all.emplace_back(state.live().description().name(i));
  return all;
}

TEST(Trees, AreFlattenedAsTorchDoesIt) {
  TorchState state(0, 2);
  state.add_tree(dict({
      {"model", dict({{"a.b", at::ones({2})}, {7, at::ones({3})}})},
      {"groups", list({dict({{"lr", 0.5}, {"on", true}}), at::ones({1})})},
      {"steps", c10::List<std::int64_t>({1, 2})},
      {"pair", c10::ivalue::Tuple::create({IValue("x"), IValue()})},
      {"nothing", IValue()},
  }));
  EXPECT_EQ(names(state), (Names{"model.a.b", "model.7", "groups.0.lr", "groups.0.on", "groups.1", "steps",
                                 "pair", "nothing"}));
  EXPECT_EQ(state.live().description().cuts(0).size(), 2u);  // "a.b" is one key
  EXPECT_TRUE(state.live().description().cuts(2)[1].is_position);
  EXPECT_EQ(state.object("groups.0.lr"), Object(0.5));
  EXPECT_EQ(state.object("groups.0.on"), Object(true));
  EXPECT_EQ(state.object("steps"), Object(Object::List{1, 2}));
  EXPECT_EQ(state.object("pair"), Object(Object::Tuple{{"x", {}}}));
  EXPECT_TRUE(state.object("nothing").is_none());
  EXPECT_EQ(failure_of([&] { state.object("model.7"); }).kind(), ErrorKind::not_found);
}

TEST(Trees, AskForALayoutByFlatName) {
  TorchState state(1, 2);
  const auto layout_of = [](std::string_view name, const at::Tensor& local) {
    EXPECT_EQ(name, "l.0.w");
    return TensorLayout::sharded({2 * local.size(0)}, 0, 2);
  };
  state.add_tree(dict({{"l", list({dict({{"w", at::ones({3})}})})}}), layout_of);
  EXPECT_EQ(state.live().description().box(0, 0).offsets[0], 3);
}

TEST(Trees, RefuseWhatTheyCannotStoreByName) {
  const std::vector<IValue> values{c10::ivalue::Tuple::create({IValue(at::ones({1}))}),
                                   IValue(at::Device(at::kCPU)), dict({{0.5, 1}})};
  for (const IValue& value : values) {
    TorchState state(0, 1);
    const Error error = failure_of([&] { state.add_tree(dict({{"a", dict({{"b", value}})}})); });
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_TRUE(contains(error, "'a.b'")) << error.what();
  }
  TorchState state(0, 1);
  EXPECT_EQ(failure_of([&] { state.add_tree(IValue(1)); }).kind(), ErrorKind::invalid_argument);
}

TEST(Objects, BecomeValuesOfLibtorchAndCanBeAddedAgain) {
  const Object::Dict items{{{"a", 1}, {2, Object::List{true, {}, 0.5}}, {"t", Object::Tuple{{"x", "y"}}}}};
  TorchState state(0, 1);
  state.add_tree(dict({{"all", list({to_ivalue(Object::List{1, "x"}), to_ivalue(Object::Tuple{{0.5}})})},
                       {"d", to_ivalue(items)}}));
  EXPECT_EQ(state.object("all"), Object(Object::List{Object::List{1, "x"}, Object::Tuple{{0.5}}}));
  EXPECT_EQ(state.object("d.a"), Object(1));
  EXPECT_EQ(state.object("d.2"), Object(Object::List{true, {}, 0.5}));
  EXPECT_EQ(state.object("d.t"), Object(Object::Tuple{{"x", "y"}}));
}

TEST(Objects, OfBytesBecomeATensorOfThem) {
  const at::Tensor bytes = to_ivalue(Object::Data{{std::byte{1}, std::byte{200}}}).toTensor();
  EXPECT_EQ(bytes.scalar_type(), at::kByte);
  EXPECT_EQ(bytes[1].item<int>(), 200);
}

TEST(Objects, OfPythonClassesAreRefused) {
  EXPECT_EQ(failure_of([] { to_ivalue(Object::Stored{}); }).kind(), ErrorKind::unsupported);
}

struct Norm : torch::nn::Module {
  Norm() {
    register_parameter("weight", at::ones({4}));
    register_parameter("none", at::Tensor(), false);
    register_buffer("mean", at::zeros({4}));
  }
};
struct Model : torch::nn::Module {
  Model() {
    register_module("norm", std::make_shared<Norm>());
    register_parameter("bias", at::ones({2}));
  }
};

TEST(Modules, HaveTheirParametersAndBuffersUnderPythonsNames) {
  const Model model;
  TorchState state(0, 1);
  state.add_module("model", model);
  EXPECT_EQ(names(state), (Names{"model.bias", "model.norm.weight", "model.norm.mean"}));
  const std::span<const NameCut> cuts = state.live().description().cuts(2);
  ASSERT_EQ(cuts.size(), 2u);
  EXPECT_EQ(cuts[1].length, std::string_view("norm.mean").size());
  EXPECT_EQ(state.live().view(0, 0).data, model.named_parameters()["bias"].const_data_ptr());
}

}  // namespace
}  // namespace cairn
