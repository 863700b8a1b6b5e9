// SPDX-License-Identifier: BSD-3-Clause
// What reports about iterations are made of, as bytes for the other ranks. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "cairn/training.hpp"

namespace cairn {

void write_texts(ByteWriter& out, const std::vector<std::string>& texts);
std::vector<std::string> read_texts(ByteReader& in);
void write_passed(ByteWriter& out, const std::vector<PassedIteration>& passed);
std::vector<PassedIteration> read_passed(ByteReader& in);
void write_number(ByteWriter& out, std::optional<std::int64_t> number);
std::optional<std::int64_t> read_number(ByteReader& in);

}  // namespace cairn
