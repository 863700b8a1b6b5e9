// SPDX-License-Identifier: BSD-3-Clause
// Two ranks fail together.
#include <cairn/checkpoint.hpp>
#include <cairn/mpi.hpp>
#include <iostream>

int main(int argc, char** argv) {
  cairn::MpiSession session(argc, argv);
  const auto comm = session.world();
  cairn::VerifyOptions options;
  options.path = argv[1];
  try {
    cairn::verify(*comm, cairn::posix_file_system(), options);
  } catch (const cairn::Error& error) {
    std::cout << comm->rank() << ": " << error.what() << '\n';
    return error.kind() == cairn::ErrorKind::not_found && comm->size() == 2 ? 0 : 1;
  }
  return 1;
}
