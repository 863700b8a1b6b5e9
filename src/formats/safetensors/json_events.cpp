// SPDX-License-Identifier: BSD-3-Clause
#include "formats/safetensors/json_events.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/fail.hpp"

namespace cairn::safetensors {
namespace {

using Json = nlohmann::json;

class Adapter final : public nlohmann::json_sax<Json> {
 public:
  explicit Adapter(JsonEvents& events) : events_(events) {}

  bool null() override { return other("null"); }
  bool boolean(bool value) override { return other(value ? "true" : "false"); }
  bool number_integer(std::int64_t) override { return other("a negative number"); }
  bool number_float(double, const std::string&) override { return other("no whole number of 64 bits"); }
  bool binary(Json::binary_t&) override { return other("binary"); }
  bool number_unsigned(std::uint64_t value) override {
    events_.number(depth_, value);
    return true;
  }
  bool string(std::string& text) override {
    events_.string(depth_, text);
    return true;
  }
  bool key(std::string& text) override {
    events_.key(depth_, text);
    return true;
  }
  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    fail_corrupt("no JSON in UTF-8 from byte {} of the text on", at);
  }

 private:
  bool other(std::string_view what) {
    events_.other(depth_, what);
    return true;
  }
  bool open(bool is_object) {
    events_.open(depth_++, is_object);
    return true;
  }
  bool close() {
    events_.close(--depth_);
    return true;
  }

  JsonEvents& events_;
  std::size_t depth_ = 0;
};

}  // namespace

void read_json(std::span<const std::byte> text, JsonEvents& events) {
  const auto* begin = reinterpret_cast<const char*>(text.data());
  // The library takes it for the end of the text.
  if (const auto nul = std::ranges::find(text, std::byte{0}); nul != text.end())
    fail_corrupt("no JSON in UTF-8 from byte {} of the text on", nul - text.begin() + 1);
  Adapter adapter(events);
  Json::sax_parse(begin, begin + text.size(), &adapter);
}

}  // namespace cairn::safetensors
