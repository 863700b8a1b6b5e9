// SPDX-License-Identifier: BSD-3-Clause
// JSON from a file that may be hostile, as events: no tree of values is made, whatever its length. Local,
// pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cairn::safetensors {

/// What happens in a text, in its order. `depth` counts the containers around: 0 for the outermost value.
/// What is thrown ends the reading.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void key(std::size_t depth, std::string& text) = 0;
  virtual void string(std::size_t depth, std::string& text) = 0;
  virtual void number(std::size_t depth, std::uint64_t value) = 0;
  /// Numbers below zero, with a fraction or beyond 64 bits, true, false, null; `what` is a noun phrase.
  virtual void other(std::size_t depth, std::string_view what) = 0;
  virtual void open(std::size_t depth, bool is_object) = 0;
  virtual void close(std::size_t depth) = 0;
};

/// Throws corrupt, with the byte, for what is no JSON text in UTF-8. Keys that come twice are two events.
void read_json(std::span<const std::byte> text, JsonEvents& events);

}  // namespace cairn::safetensors
