// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/training_wire.hpp"

namespace cairn {

void write_texts(ByteWriter& out, const std::vector<std::string>& texts) {
  out.write<std::uint64_t>(texts.size());
  for (const std::string& text : texts) out.counted_text(text);
}

std::vector<std::string> read_texts(ByteReader& in) {
  std::vector<std::string> texts;
  for (auto left = in.read<std::uint64_t>(); left > 0; --left) texts.emplace_back(in.counted_text());
  return texts;
}

void write_passed(ByteWriter& out, const std::vector<PassedIteration>& passed) {
  out.write<std::uint64_t>(passed.size());
  for (const PassedIteration& one : passed) {
    out.counted_text(one.path);
    out.counted_text(one.reason);
  }
}

std::vector<PassedIteration> read_passed(ByteReader& in) {
  std::vector<PassedIteration> passed;
  for (auto left = in.read<std::uint64_t>(); left > 0; --left) {
    std::string path(in.counted_text());
    passed.push_back({std::move(path), std::string(in.counted_text())});
  }
  return passed;
}

void write_number(ByteWriter& out, std::optional<std::int64_t> number) {
  out.write(std::uint8_t{number.has_value()});
  out.write(number.value_or(0));
}

std::optional<std::int64_t> read_number(ByteReader& in) {
  const bool is_there = in.read<std::uint8_t>() != 0;
  const auto number = in.read<std::int64_t>();
  return is_there ? std::optional(number) : std::nullopt;
}

}  // namespace cairn
