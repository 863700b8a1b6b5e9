// SPDX-License-Identifier: BSD-3-Clause
// A VerifyReport for the wire. Pure.
#pragma once

#include "base/byte_writer.hpp"
#include "cairn/checkpoint.hpp"

namespace cairn {

Bytes encode_report(const VerifyReport& report);
VerifyReport decode_report(const Bytes& bytes);

void write_fault(ByteWriter& out, const Fault& fault);
class ByteReader;
Fault read_fault(ByteReader& in);

}  // namespace cairn
