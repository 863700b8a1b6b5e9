// SPDX-License-Identifier: BSD-3-Clause
// MPI and libtorch in one program: libtorch computes on its threads, ranks agree.
#include <ATen/ATen.h>

#include <cairn/checkpoint.hpp>
#include <cairn/mpi.hpp>
#include <cairn/torch.hpp>
#include <iostream>

int main(int argc, char** argv) {
  cairn::MpiSession session(argc, argv);
  const auto comm = session.world();
  const at::Tensor product = at::ones({300, 300}).matmul(at::ones({300, 300}));
  cairn::TorchState state(*comm);
  state.add_tensor("w", product);
  state.prepare_save();
  if (product.sum().item<double>() != 300.0 * 300 * 300 || state.live().size() != 1) return 1;
  cairn::VerifyOptions options;
  options.path = argv[1];
  try {
    cairn::verify(*comm, cairn::posix_file_system(), options);
  } catch (const cairn::Error& error) {
    return error.kind() == cairn::ErrorKind::not_found && comm->size() == 2 ? 0 : 1;
  }
  return 1;
}
