// SPDX-License-Identifier: BSD-3-Clause
// One process: a state is built, and a checkpoint that is not there is asked for.
#include <cairn/checkpoint.hpp>
#include <cairn/live_state.hpp>
#include <iostream>

int main(int, char** argv) {
  std::vector<float> values{0, 1, 2, 3, 4, 5};
  cairn::LiveState state(0);
  state.add_tensor("w", cairn::TensorLayout::replicated({2, 3}, 1),
                   cairn::TensorView::contiguous(cairn::DType::float32, {2, 3}, values.data()));
  try {
    cairn::list_checkpoint(cairn::posix_file_system(), argv[1]);
  } catch (const cairn::Error& error) {
    std::cout << error.what() << '\n';
    return error.kind() == cairn::ErrorKind::not_found && state.size() == 1 ? 0 : 1;
  }
  return 1;
}
