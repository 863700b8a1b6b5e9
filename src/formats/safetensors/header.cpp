// SPDX-License-Identifier: BSD-3-Clause
#include "formats/safetensors/header.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/checked.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "formats/safetensors/dtype_code.hpp"
#include "formats/safetensors/json_events.hpp"

namespace cairn::safetensors {
namespace {

constexpr std::string_view kMetadata = "__metadata__";

// --- the text as entries ----------------------------------------------------------------------------------

// Codes and shapes as they stand there; judged later, when the whole text is known to be a header.
struct RawEntry {
  std::uint64_t name_at = 0, shape_at = 0, begin = 0, end = 0;
  std::uint32_t name_bytes = 0, ndim = 0;
  std::uint16_t code = 0;  // index
  std::uint8_t seen = 0;   // fields
};

class HeaderEvents final : public JsonEvents {
 public:
  explicit HeaderEvents(Header& header) : header_(header) {}

  void key(std::size_t depth, std::string& text) override {
    if (depth == 1) return begin_entry(text);
    if (in_metadata_) return header_.metadata.emplace_back(std::move(text), std::string()), void();
    field_ = text == "dtype" ? kDtype : text == "shape" ? kShape : text == "data_offsets" ? kOffsets : 0;
    if (field_ == 0) refuse(fmt::format("the key '{}'", escape_name(text)));
    if ((raw.back().seen & field_) != 0) refuse(fmt::format("'{}' twice", text));
    raw.back().seen |= field_;
  }

  void string(std::size_t depth, std::string& text) override {
    if (depth == 2 && in_metadata_) {
      header_.metadata.back().second = std::move(text);
    } else if (depth == 2 && field_ == kDtype) {
      raw.back().code = code_index(text);
    } else {
      refuse("a string");
    }
  }

  void number(std::size_t depth, std::uint64_t value) override {
    if (depth != 3) refuse("a number");
    numbers_.push_back(value);
  }

  void other(std::size_t, std::string_view what) override { refuse(what); }

  void open(std::size_t depth, bool is_object) override {
    if (is_object != (depth < 2) || depth > 2) refuse(is_object ? "an object" : "a list");
    if (depth == 2 && (in_metadata_ || field_ == kDtype)) refuse("a list");
    numbers_.clear();
  }

  void close(std::size_t depth) override {
    if (depth == 2) return take_numbers();
    if (depth == 1 && !in_metadata_ && raw.back().seen != (kDtype | kShape | kOffsets))
      refuse("no dtype, shape and data_offsets");
  }

  std::vector<RawEntry> raw;
  std::vector<std::string> codes;
  bool has_metadata = false;

 private:
  static constexpr std::uint8_t kDtype = 1, kShape = 2, kOffsets = 4;

  void begin_entry(const std::string& name) {
    in_metadata_ = name == kMetadata;
    if (in_metadata_) {
      if (has_metadata) refuse("__metadata__ twice");
      has_metadata = true;
      return;
    }
    RawEntry& entry = raw.emplace_back();
    entry.name_at = header_.names.size();
    entry.name_bytes = static_cast<std::uint32_t>(name.size());
    header_.names += name;
    field_ = 0;
  }

  std::uint16_t code_index(const std::string& text) {
    const auto known = std::ranges::find(codes, text);
    if (known != codes.end()) return static_cast<std::uint16_t>(known - codes.begin());
    if (codes.size() >= 1024) refuse("more than a thousand dtypes");
    codes.push_back(text);
    return static_cast<std::uint16_t>(codes.size() - 1);
  }

  void take_numbers() {
    RawEntry& entry = raw.back();
    if (field_ == kOffsets) {
      if (numbers_.size() != 2) refuse(fmt::format("data_offsets of {} numbers", numbers_.size()));
      entry.begin = numbers_[0], entry.end = numbers_[1];
      return;
    }
    entry.shape_at = header_.shapes.size();
    entry.ndim = static_cast<std::uint32_t>(numbers_.size());
    for (const std::uint64_t size : numbers_) {
      if (size > static_cast<std::uint64_t>(INT64_MAX)) refuse(fmt::format("a size of {}", size));
      header_.shapes.push_back(static_cast<std::int64_t>(size));
    }
  }

  [[noreturn]] void refuse(std::string_view found) const {
    const std::string where =
        in_metadata_ ? std::string(kMetadata)
        : raw.empty()
            ? std::string("the header")
            : fmt::format("'{}'", escape_name(std::string_view(header_.names).substr(raw.back().name_at)));
    fail_corrupt("{}: {} found, which is no part of a header", where, found);
  }

  Header& header_;
  bool in_metadata_ = false;
  std::uint8_t field_ = 0;
  std::vector<std::uint64_t> numbers_;
};

// --- entries against the data -----------------------------------------------------------------------------

class EntryCheck {
 public:
  EntryCheck(Header& header, const std::string& file, std::uint64_t data_bytes, FaultList& faults)
      : header_(header), file_(file), data_bytes_(data_bytes), faults_(faults) {}

  void run(const HeaderEvents& events) {
    for (const RawEntry& raw : events.raw) {
      HeaderEntry entry{raw.name_at,  raw.shape_at, raw.name_bytes, raw.ndim,
                        DType::uint8, raw.begin,    raw.end};
      if (take_dtype(entry, events.codes[raw.code]) && take_shape(entry)) header_.entries.push_back(entry);
    }
    check_names();
    check_metadata();
    check_data();
  }

 private:
  bool take_dtype(HeaderEntry& entry, const std::string& code) {
    const auto dtype = dtype_of(code);
    if (!dtype)
      return add(FaultKind::dtype, entry, fmt::format("dtype '{}' is none of torch", escape_name(code)));
    entry.dtype = *dtype;
    const std::int64_t packed = values_per_element(*dtype);
    if (packed == 1) return true;
    if (entry.ndim == 0 || header_.shapes[entry.shape_at + entry.ndim - 1] % packed != 0)
      return add(FaultKind::shape, entry,
                 fmt::format("a last dimension of {} values is needed for {}", packed, code));
    header_.shapes[entry.shape_at + entry.ndim - 1] /= packed;
    return true;
  }

  bool take_shape(const HeaderEntry& entry) {
    std::uint64_t bytes = 0;
    try {
      bytes = shape_bytes(entry);
    } catch (const Error& error) {
      return add(FaultKind::shape, entry, error.message());
    }
    if (entry.begin > entry.end)
      return add(FaultKind::out_of_bounds, entry,
                 fmt::format("bytes [{}, {}) of the data end before they begin", entry.begin, entry.end));
    if (bytes == entry.end - entry.begin) return true;
    return add(FaultKind::shape, entry,
               fmt::format("{} bytes at byte {} of the data, {} expected for shape {} of {}",
                           entry.end - entry.begin, entry.begin, bytes, to_string(header_.shape(entry)),
                           info(entry.dtype).name));
  }

  // A size of 0 does not excuse the others.
  std::uint64_t shape_bytes(const HeaderEntry& entry) const {
    auto bytes = static_cast<std::int64_t>(element_size(entry.dtype));
    bool is_empty = false;
    for (const std::int64_t size : header_.shape(entry)) {
      is_empty = is_empty || size == 0;
      if (size > 0) bytes = checked_mul(bytes, size, "the size of the tensor");
    }
    return is_empty ? 0 : static_cast<std::uint64_t>(bytes);
  }

  void check_names() const {
    std::vector<std::string_view> names;
    names.reserve(header_.entries.size());
    for (const HeaderEntry& entry : header_.entries) names.push_back(header_.name(entry));
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end()) fail_corrupt("'{}' comes twice in the header", escape_name(*twice));
  }

  void check_metadata() const {
    std::vector<std::string_view> keys;
    for (const auto& [key, value] : header_.metadata) keys.push_back(key);
    std::ranges::sort(keys);
    const auto twice = std::ranges::adjacent_find(keys);
    if (twice != keys.end()) fail_corrupt("'{}' comes twice in __metadata__", escape_name(*twice));
  }

  // Each byte belongs to one tensor.
  void check_data() {
    std::vector<std::uint64_t> order(header_.entries.size());
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    const auto place = [&](std::uint64_t i) {
      return std::pair(header_.entries[i].begin, header_.entries[i].end);
    };
    std::ranges::sort(order, {}, place);
    std::uint64_t at = 0;
    for (const std::uint64_t i : order) {
      const HeaderEntry& entry = header_.entries[i];
      if (entry.begin < at)
        add(FaultKind::overlap, entry,
            fmt::format("its data begins at byte {}, before the one before ends at {}", entry.begin, at));
      else if (entry.begin > at && faults_.empty())  // a tensor that was left out leaves a hole
        add(FaultKind::hole, entry,
            fmt::format("bytes [{}, {}) of the data before it belong to no tensor", at, entry.begin));
      at = std::max(at, entry.end);
    }
    check_end(order, at);
  }

  void check_end(std::span<const std::uint64_t> order, std::uint64_t at) {
    if (at == data_bytes_ || (at < data_bytes_ && !faults_.empty())) return;
    const std::uint64_t size = header_.bytes + data_bytes_;
    const std::uint64_t expected = checked_add(header_.bytes, at, "the end of the data");
    if (at > data_bytes_) {
      for (const std::uint64_t i : order) {
        const HeaderEntry& entry = header_.entries[i];
        if (entry.end > data_bytes_)
          add(FaultKind::short_file, entry,
              fmt::format("its data ends at byte {} of the file, which has {}", header_.bytes + entry.end,
                          size));
      }
      return;
    }
    faults_.add({FaultKind::hole,
                 {},
                 file_,
                 expected,
                 fmt::format("{} has {} bytes, {} expected: the last {} belong to no tensor",
                             escape_name(file_), size, expected, size - expected)});
  }

  bool add(FaultKind kind, const HeaderEntry& entry, std::string_view what) {
    if (faults_.full()) {
      faults_.add_unlisted(1);
      return false;
    }
    const std::string name(header_.name(entry));
    faults_.add({kind, name, file_, header_.bytes + std::min(entry.begin, data_bytes_),
                 fmt::format("'{}' in {}: {}", escape_name(name), escape_name(file_), what)});
    return false;
  }

  Header& header_;
  const std::string& file_;
  const std::uint64_t data_bytes_;
  FaultList& faults_;
};

std::uint64_t read_length(File& file, std::uint64_t size) {
  if (size < kLengthBytes) fail_corrupt("{} bytes, at least {} expected", size, kLengthBytes);
  Bytes bytes(kLengthBytes);
  file.read(0, bytes);
  const auto length = ByteReader(bytes, "length of the header").read<std::uint64_t>();
  if (length > kMostHeaderBytes)
    fail_corrupt("a header of {} bytes, {} expected at most", length, kMostHeaderBytes);
  if (length > size - kLengthBytes) fail_corrupt("a header of {} bytes in a file of {} bytes", length, size);
  return length;
}

}  // namespace

Header read_header(File& file, const std::string& name, FaultList& faults) {
  return with_context(
      [&] { return fmt::format("the header in {} at byte {}", escape_name(name), kLengthBytes); },
      [&] {
        const std::uint64_t size = file.size();
        const std::uint64_t length = read_length(file, size);
        Header header;
        header.bytes = kLengthBytes + length;
        Bytes text(length);
        file.read(kLengthBytes, text);
        HeaderEvents events(header);
        read_json(text, events);
        text = Bytes();
        FaultList found;
        EntryCheck(header, name, size - header.bytes, found).run(events);
        for (const Fault& fault : found.faults()) faults.add(fault);
        faults.add_unlisted(found.count() - found.faults().size());
        return header;
      });
}

// --- written ----------------------------------------------------------------------------------------------

namespace {

constexpr std::uint64_t kTextAlignment = 8;

// Of a text in UTF-8.
std::string quoted(std::string_view text, bool ascii) {
  try {
    return nlohmann::json(text).dump(-1, ' ', ascii);
  } catch (const nlohmann::json::exception&) {
    fail(ErrorKind::unsupported, "'{}' is not UTF-8, as the names in a safetensors file must be",
         escape_name(text));
  }
}

void append_shape(std::string& text, const PlacedTensor& tensor) {
  const char* separator = "";
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    const bool is_last = d + 1 == tensor.shape.size();
    text += fmt::format("{}{}", std::exchange(separator, ","),
                        tensor.shape[d] * (is_last ? values_per_element(tensor.dtype) : 1));
  }
}

// The values are JSON.
std::string indented_object(TextPairs members) {
  std::ranges::sort(members);
  std::string text = "{";
  const char* separator = "";
  for (const auto& [key, value] : members)
    text += fmt::format("{}\n    {}: {}", std::exchange(separator, ","), quoted(key, true), value);
  return text += members.empty() ? "}" : "\n  }";
}

}  // namespace

std::string encode_header(std::span<const PlacedTensor> tensors, const TextPairs& metadata) {
  std::string text(kLengthBytes, '\0');
  text += "{\"__metadata__\":{";
  const char* separator = "";
  for (const auto& [key, value] : metadata)
    text += fmt::format("{}{}:{}", std::exchange(separator, ","), quoted(key, false), quoted(value, false));
  text += '}';
  for (const PlacedTensor& tensor : tensors) {
    text += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[", quoted(tensor.name, false),
                        code_of(tensor.dtype).value());
    append_shape(text, tensor);
    text += fmt::format("],\"data_offsets\":[{},{}]}}", tensor.begin, tensor.end);
  }
  text += '}';
  text.resize((text.size() + kTextAlignment - 1) / kTextAlignment * kTextAlignment, ' ');
  ByteWriter length;
  length.write<std::uint64_t>(text.size() - kLengthBytes);
  std::ranges::copy(as_text(length.view()), text.begin());
  return text;
}

std::string encode_index(TextPairs weights, const TextPairs& metadata, std::uint64_t total_bytes) {
  TextPairs facts;
  for (const auto& [key, value] : metadata) facts.emplace_back(key, quoted(value, true));
  facts.emplace_back("total_size", fmt::format("{}", total_bytes));
  for (auto& [name, file] : weights) file = quoted(file, true);
  return fmt::format("{{\n  \"metadata\": {},\n  \"weight_map\": {}\n}}\n", indented_object(std::move(facts)),
                     indented_object(std::move(weights)));
}

}  // namespace cairn::safetensors
