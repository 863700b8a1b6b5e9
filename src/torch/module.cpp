// SPDX-License-Identifier: BSD-3-Clause
#include <torch/nn/module.h>

#include "cairn/torch.hpp"

namespace cairn {

void TorchState::add_dict(std::string_view name, const torch::OrderedDict<std::string, at::Tensor>& dict,
                          const LayoutOf& layout_of) {
  LiveNode::Dict tensors;
  for (const auto& item : dict) {
    const std::string flat = std::string(name) + "." + item.key();
    tensors.emplace_back(item.key(), tensor_node(flat, item.value(), layout_of));
  }
  live_.add_tree({{std::string(name), std::move(tensors)}});
}

void TorchState::add_module(std::string_view name, const torch::nn::Module& module,
                            const LayoutOf& layout_of) {
  torch::OrderedDict<std::string, at::Tensor> state = module.named_parameters();
  state.update(module.named_buffers());
  add_dict(name, state, layout_of);
}

}  // namespace cairn
