// SPDX-License-Identifier: BSD-3-Clause
// `.metadata` from any bytes: decoded into a catalogue that survives its wire form, and a state tree.
#include <cstdlib>

#include "cairn/error.hpp"
#include "formats/dcp/metadata_decoder.hpp"
#include "formats/torch_file/state_tree.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cairn;
  try {
    FaultList faults;
    const auto decoded = dcp::decode_metadata(std::as_bytes(std::span(data, size)), "input", faults);
    const auto wire = decoded.catalog.encode();
    if (Catalog::decode(wire).encode() != wire) std::abort();
    torch_file::StateTree tree(decoded.catalog, false, size);
    for (std::uint32_t i = 0; i < decoded.catalog.entries().size(); ++i) tree.add(i);
  } catch (const Error&) {
  }
  return 0;
}
