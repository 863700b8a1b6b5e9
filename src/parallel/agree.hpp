// SPDX-License-Identifier: BSD-3-Clause
// Agreeing on failure: the only way in which ranks leave a collective job early.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "cairn/communicator.hpp"
#include "cairn/error.hpp"

namespace cairn {

/// Collective. Runs `body` on every rank (it must not use `comm`), then agrees: returns on all ranks when all
/// succeeded, else every rank throws the same Error: the failure of the lowest failing rank, with `step` and
/// all ranks' failures. Exceptions that are not cairn::Error become io errors with their what(); bad_alloc
/// becomes io "out of memory". `step` is a short phrase for messages ("reading the metadata").
void on_all_ranks(std::string_view step, Communicator& comm, const std::function<void()>& body);

/// Local. In a handler: the exception that is handled, as the Error that on_all_ranks() makes of it.
Error current_error();

/// What failed on one rank, on its way to the others. Pure.
struct Failure {
  int rank;
  Error error;
};
/// Failures as bytes: what encode() makes of several, one after the other, decode_failures() takes apart.
Bytes encode(const Failure& failure);
std::vector<Failure> decode_failures(std::span<const std::byte> bytes);
/// The Error that on_all_ranks() throws on `size` ranks for these, in order of ranks; at least one.
Error merged(std::string_view step, int size, const std::vector<Failure>& failures);

/// Collective. `body` runs on `root` only and may fail; its result reaches all ranks.
Bytes on_root(std::string_view step, Communicator& comm, int root, const std::function<Bytes()>& body);

/// Collective. The same with bytes for each rank: `body` returns comm.size() of them, and the one of this
/// rank comes back. Any length; cut at 1 GiB.
Bytes on_root_for_each(std::string_view step, Communicator& comm, int root,
                       const std::function<std::vector<Bytes>()>& body);

}  // namespace cairn
