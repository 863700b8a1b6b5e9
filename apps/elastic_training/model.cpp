// SPDX-License-Identifier: BSD-3-Clause
#include "model.hpp"

#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/loss.h>
#include <torch/utils.h>

#include <string>

#include "text.hpp"

namespace elastic {
namespace {

torch::nn::LayerNorm norm_of(int width) { return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})); }

}  // namespace

Block::Block(const ModelShape& shape)
    : heads_(shape.heads),
      norm1_(register_module("norm1", norm_of(shape.width))),
      norm2_(register_module("norm2", norm_of(shape.width))),
      qkv_(register_module("qkv", torch::nn::Linear(shape.width, 3 * shape.width))),
      projection_(register_module("projection", torch::nn::Linear(shape.width, shape.width))),
      wide_(register_module("wide", torch::nn::Linear(shape.width, 4 * shape.width))),
      narrow_(register_module("narrow", torch::nn::Linear(4 * shape.width, shape.width))) {}

at::Tensor Block::attend(const at::Tensor& x) {
  const auto samples = x.size(0), length = x.size(1), width = x.size(2);
  const auto parts = qkv_(x).view({samples, length, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4});
  const auto scores =
      parts[0].matmul(parts[1].transpose(-1, -2)) / std::sqrt(static_cast<double>(width) / heads_);
  const auto later = at::ones({length, length}, at::kBool).triu(1);
  const auto weights = scores.masked_fill(later, -1e9).softmax(-1);
  return projection_(weights.matmul(parts[2]).transpose(1, 2).reshape({samples, length, width}));
}

at::Tensor Block::forward(const at::Tensor& x) {
  const auto attended = x + attend(norm1_(x));
  return attended + narrow_(at::gelu(wide_(norm2_(attended))));
}

Model::Model(const ModelShape& shape, std::uint64_t seed)
    : characters_(nullptr), places_(nullptr), norm_(nullptr), head_(nullptr) {
  torch::manual_seed(seed);
  characters_ = register_module("characters", torch::nn::Embedding(kAlphabet, shape.width));
  places_ = register_module("places", torch::nn::Embedding(shape.context, shape.width));
  for (int i = 0; i < shape.layers; ++i)
    blocks_.push_back(register_module("block" + std::to_string(i), std::make_shared<Block>(shape)));
  norm_ = register_module("norm", norm_of(shape.width));
  head_ = register_module("head", torch::nn::Linear(shape.width, kAlphabet));
}

at::Tensor Model::logits(const at::Tensor& tokens) {
  auto x = characters_(tokens) + places_(at::arange(tokens.size(1)));
  for (const auto& block : blocks_) x = block->forward(x);
  return head_(norm_(x));
}

at::Tensor Model::loss(const at::Tensor& tokens) {
  const auto length = tokens.size(1) - 1;
  const auto found = logits(tokens.narrow(1, 0, length)).reshape({-1, kAlphabet});
  return torch::nn::functional::cross_entropy(found, tokens.narrow(1, 1, length).reshape({-1}));
}

}  // namespace elastic
