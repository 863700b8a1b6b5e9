// SPDX-License-Identifier: BSD-3-Clause
// A small transformer that predicts the next character.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <vector>

namespace elastic {

struct ModelShape {
  int layers = 2, width = 64, heads = 4, context = 64;
};

class Block : public torch::nn::Module {
 public:
  explicit Block(const ModelShape& shape);
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor attend(const at::Tensor& x);

  int heads_;
  torch::nn::LayerNorm norm1_, norm2_;
  torch::nn::Linear qkv_, projection_, wide_, narrow_;
};

class Model : public torch::nn::Module {
 public:
  /// The parameters are random, the same for one `seed`.
  Model(const ModelShape& shape, std::uint64_t seed);

  /// Mean of the cross entropy of every next character. `tokens`: int64, [samples, context + 1].
  at::Tensor loss(const at::Tensor& tokens);

 private:
  at::Tensor logits(const at::Tensor& tokens);

  torch::nn::Embedding characters_, places_;
  std::vector<std::shared_ptr<Block>> blocks_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear head_;
};

}  // namespace elastic
