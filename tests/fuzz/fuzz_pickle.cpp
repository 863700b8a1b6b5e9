// SPDX-License-Identifier: BSD-3-Clause
// Reads a pickle out of arbitrary bytes; what it holds is looked through, written, and what was written must
// be read and written to the same bytes again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "cairn/error.hpp"
#include "pickle/globals.hpp"
#include "pickle/python2_names.hpp"
#include "pickle/reader.hpp"
#include "pickle/writer.hpp"

namespace {

using namespace cairn;

void require(bool claim) {
  if (!claim) std::abort();
}

/// Empty where protocol 2 has no words for the value.
Bytes written(const pickle::Arena& arena, pickle::Value root) {
  ByteWriter out;
  try {
    pickle::write_protocol2(arena, root, out);
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::unsupported);
    return {};
  }
  return out.take();
}

void require_same_again(const Bytes& pickle) {
  pickle::Arena arena;
  try {
    const pickle::Value root = pickle::read(arena, pickle, "own pickle");
    require(written(arena, root) == pickle);
  } catch (const Error&) {
    std::abort();
  }
}

/// A few Python 3 names share one Python 2 name and come back as another global.
bool names_survive(const pickle::Arena& arena, pickle::Value root) {
  for (const auto& [module, name] : pickle::collect_globals(arena, root)) {
    const pickle::QualifiedName global{module, name};
    if (pickle::to_python3(pickle::to_python2(global)) != global) return false;
  }
  return true;
}

void read_and_write(std::span<const std::byte> input) {
  pickle::Arena arena;
  std::size_t consumed = 0;
  const pickle::Value root = pickle::read(arena, input, "input", {}, &consumed);
  require(consumed <= input.size());
  pickle::unsafe_parts(arena, root);
  const Bytes once = written(arena, root);
  if (!once.empty() && names_survive(arena, root)) require_same_again(once);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    read_and_write(std::as_bytes(std::span(data, size)));
  } catch (const Error&) {
  }
  return 0;
}
