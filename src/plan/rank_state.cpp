// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <type_traits>

#include "base/checked.hpp"
#include "base/pool.hpp"
#include "base/text.hpp"
#include "cairn/state.hpp"
#include "plan/compact.hpp"
#include "plan/fingerprint.hpp"

namespace cairn {
namespace {

// How an entry begins on the wire. One box that is the whole tensor takes no room.
enum class Tag : std::uint8_t { tensor, whole_tensor, object, rank_object };

constexpr std::size_t kMaxShared = 255;        // of a name with the one before: keeps decoding in proportion
constexpr std::uint64_t kLeastEntryBytes = 5;  // of an object
constexpr std::size_t kMaxNdim = 0xffff;
constexpr std::uint64_t kMaxLength = 0x7fffffff;
constexpr std::uint64_t kMaxCoordinate = std::numeric_limits<std::int64_t>::max();

bool is_whole(BoxView box, std::span<const std::int64_t> shape) {
  return std::ranges::equal(box.sizes, shape) &&
         std::ranges::all_of(box.offsets, [](auto at) { return at == 0; });
}

bool is_position(std::string_view digits) {
  constexpr std::size_t longest = 18;
  return !digits.empty() && digits.size() <= longest && (digits.size() == 1 || digits[0] != '0') &&
         std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
}

bool spell(std::span<const NameCut> cuts, std::string_view name) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    if (i > 0 && (at == name.size() || name[at++] != '.')) return false;
    if (cuts[i].length > name.size() - at) return false;
    if (cuts[i].is_position && (i == 0 || !is_position(name.substr(at, cuts[i].length)))) return false;
    at += cuts[i].length;
  }
  return cuts.empty() || at == name.size();
}

std::string rank_step(int rank) { return fmt::format("rank_{}", rank); }

}  // namespace

void RankState::add_entry(std::string_view name, std::span<const NameCut> cuts, Kind kind, DType dtype,
                          std::span<const std::int64_t> shape, std::uint64_t object_bytes) {
  const auto refuse = [&](std::string_view why) {
    fail(ErrorKind::invalid_argument, "state of rank {}: '{}': {}", rank_, escape_name(name), why);
  };
  if (name.size() > kMaxLength || cuts.size() > kMaxLength || shape.size() > kMaxNdim)
    refuse("name, path or shape is too long");
  if (!spell(cuts, name)) refuse("the steps of the path, joined by dots, are another name");
  if (std::ranges::any_of(shape, [](std::int64_t size) { return size < 0; })) refuse("negative size");
  try {
    checked_mul(static_cast<std::uint64_t>(element_count(shape)), element_size(dtype), "tensor size");
  } catch (const Error& error) {
    refuse(error.message());
  }
  entries_.push_back({characters_.size(), coordinates_.size(), cuts_.size(), object_bytes,
                      static_cast<std::uint32_t>(name.size()), 0, static_cast<std::uint32_t>(cuts.size()),
                      static_cast<std::uint16_t>(shape.size()), dtype, kind});
  characters_.insert(characters_.end(), name.begin(), name.end());
  cuts_.insert(cuts_.end(), cuts.begin(), cuts.end());
  coordinates_.insert(coordinates_.end(), shape.begin(), shape.end());
}

void RankState::add_tensor(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
                           std::span<const NameCut> cuts) {
  add_entry(name, cuts, Kind::tensor, dtype, shape, 0);
}

void RankState::add_box(BoxView box) {
  if (entries_.empty() || entries_.back().kind != Kind::tensor)
    fail(ErrorKind::invalid_argument, "state of rank {}: a box without its tensor", rank_);
  const std::size_t entry = entries_.size() - 1;
  if (shape(entry).empty() && box_count(entry) == 1) {
    fail(ErrorKind::invalid_argument, "state of rank {}: '{}': a scalar has one box", rank_,
         escape_name(name(entry)));
  }
  if (!inside(box, shape(entry))) {
    fail(ErrorKind::invalid_argument, "state of rank {}: '{}': box {} does not lie inside {}", rank_,
         escape_name(name(entry)), to_string(box), to_string(shape(entry)));
  }
  coordinates_.insert(coordinates_.end(), box.offsets.begin(), box.offsets.end());
  coordinates_.insert(coordinates_.end(), box.sizes.begin(), box.sizes.end());
  ++entries_.back().box_count;
}

void RankState::add_tensor(std::string_view name, DType dtype, const TensorLayout& layout,
                           std::span<const NameCut> cuts) {
  add_tensor(name, dtype, layout.shape(), cuts);
  layout.for_each_box(rank_, [&](const OwnedBox& owned) { add_box(owned.box); });
}

void RankState::add_object(std::string_view name, std::uint64_t bytes, std::span<const NameCut> cuts) {
  add_entry(name, cuts, Kind::object, DType::uint8, {}, bytes);
}

void RankState::add_rank_object(std::string_view name, std::uint64_t bytes, std::span<const NameCut> cuts) {
  const std::string step = rank_step(rank_);
  std::vector<NameCut> longer(cuts.begin(), cuts.end());
  if (!cuts.empty()) longer.push_back({static_cast<std::uint32_t>(step.size())});
  add_entry(fmt::format("{}.{}", name, step), longer, Kind::rank_object, DType::uint8, {}, bytes);
}

Fingerprint RankState::fingerprint() const {
  static_assert(std::has_unique_object_representations_v<Entry>);
  FingerprintHash hash;
  hash.add(static_cast<std::uint64_t>(rank_), cuts_.size());
  const auto packed = [&](std::size_t i) {
    return i < cuts_.size() ? std::uint64_t{cuts_[i].length} << 1 | (cuts_[i].is_position ? 1 : 0) : 0;
  };
  for (std::size_t i = 0; i < cuts_.size(); i += 4)
    hash.add(packed(i) << 32 | packed(i + 1), packed(i + 2) << 32 | packed(i + 3));
  hash.add(std::as_bytes(std::span(entries_)));
  hash.add(std::as_bytes(std::span(characters_)));
  hash.add(std::as_bytes(std::span(coordinates_)));
  return hash.finish();
}

namespace {

void write_name(ByteWriter& out, std::string_view name, std::string_view before) {
  const std::size_t most = std::min({kMaxShared, name.size(), before.size()});
  const auto shared = std::ranges::mismatch(name.substr(0, most), before.substr(0, most)).in1 - name.begin();
  const std::string_view rest = name.substr(static_cast<std::size_t>(shared));
  write_number(out, static_cast<std::uint64_t>(shared));
  write_number(out, rest.size());
  out.text(rest);
}

void read_name(ByteReader& in, std::string& name) {
  name.resize(read_number(in, std::min(kMaxShared, name.size())));
  name += in.text(read_number(in, kMaxLength));
}

void write_cuts(ByteWriter& out, std::span<const NameCut> cuts) {
  write_number(out, cuts.size());
  for (const NameCut& cut : cuts)
    write_number(out, std::uint64_t{cut.length} << 1 | (cut.is_position ? 1 : 0));
}

void read_cuts(ByteReader& in, std::vector<NameCut>& cuts) {
  cuts.resize(read_number(in, in.remaining()));
  for (NameCut& cut : cuts) {
    const std::uint64_t value = read_number(in, 2 * kMaxLength + 1);
    cut = {static_cast<std::uint32_t>(value >> 1), (value & 1) != 0};
  }
}

void read_coordinates(ByteReader& in, std::vector<std::int64_t>& values) {
  for (std::int64_t& value : values) value = static_cast<std::int64_t>(read_number(in, kMaxCoordinate));
}

}  // namespace

std::vector<std::byte> RankState::encode() const {
  ByteWriter out;
  write_number(out, static_cast<std::uint64_t>(rank_));
  write_number(out, size());
  for (std::size_t entry = 0; entry < size(); ++entry) {
    const bool whole = box_count(entry) == 1 && is_whole(box(entry, 0), shape(entry));
    const Tag tag = kind(entry) == Kind::object        ? Tag::object
                    : kind(entry) == Kind::rank_object ? Tag::rank_object
                    : whole                            ? Tag::whole_tensor
                                                       : Tag::tensor;
    out.write(static_cast<std::uint8_t>(tag));
    write_name(out, name(entry), entry == 0 ? std::string_view() : name(entry - 1));
    write_cuts(out, cuts(entry));
    if (!is_tensor(entry)) {
      write_number(out, object_bytes(entry));
      continue;
    }
    out.write(static_cast<std::uint8_t>(dtype(entry)));
    write_number(out, shape(entry).size());
    write_coordinates(out, shape(entry));
    if (whole) continue;
    write_number(out, box_count(entry));
    const Entry& row = entries_[entry];
    write_coordinates(out,
                      std::span(coordinates_)
                          .subspan(row.coordinates_at + row.ndim, std::size_t{2} * row.ndim * row.box_count));
  }
  return out.take();
}

namespace {

/// The entry at work; kept from one to the next, so that their memory is.
struct EntryRead {
  std::string name;
  std::vector<NameCut> cuts;
  std::vector<std::int64_t> shape;
  Box box;
};

/// The dtype, shape and boxes of a tensor; what is wrong in itself is refused by the state.
void read_tensor(ByteReader& in, RankState& state, EntryRead& entry, bool whole) {
  auto& [name, cuts, shape, box] = entry;
  const auto dtype = read_number(in, static_cast<std::uint64_t>(DType::bits16));
  shape.resize(read_number(in, std::min<std::uint64_t>(kMaxNdim, in.remaining())));
  read_coordinates(in, shape);
  state.add_tensor(name, static_cast<DType>(dtype), shape, cuts);
  box.offsets.assign(shape.size(), 0);
  box.sizes = shape;
  if (whole) return state.add_box(box);
  const std::uint64_t most = shape.empty() ? 1 : in.remaining() / (2 * shape.size());
  for (std::uint64_t left = read_number(in, most); left > 0; --left) {
    read_coordinates(in, box.offsets);
    read_coordinates(in, box.sizes);
    state.add_box(box);
  }
}

void read_object(ByteReader& in, RankState& state, std::string_view name, std::span<const NameCut> cuts,
                 bool is_rank_object) {
  const std::uint64_t bytes = read_number(in);
  if (!is_rank_object) return state.add_object(name, bytes, cuts);
  const std::string suffix = "." + rank_step(state.rank());
  if (!name.ends_with(suffix)) fail_corrupt("object '{}' of rank {}", escape_name(name), state.rank());
  name.remove_suffix(suffix.size());
  state.add_rank_object(name, bytes, cuts.empty() ? cuts : cuts.first(cuts.size() - 1));
}

void read_entries(ByteReader& in, RankState& state, std::uint64_t count) {
  EntryRead entry;
  for (std::uint64_t left = count; left > 0; --left) {
    const auto tag = static_cast<Tag>(read_number(in, static_cast<std::uint64_t>(Tag::rank_object)));
    read_name(in, entry.name);
    read_cuts(in, entry.cuts);
    if (tag == Tag::tensor || tag == Tag::whole_tensor)
      read_tensor(in, state, entry, tag == Tag::whole_tensor);
    else
      read_object(in, state, entry.name, entry.cuts, tag == Tag::rank_object);
  }
}

}  // namespace

RankState RankState::decode(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "state of a rank");
  RankState state(static_cast<int>(read_number(in, 0x7fffffff)));
  try {
    const std::uint64_t count = read_number(in, in.remaining() / kLeastEntryBytes);
    reserve_large(state.entries_, count);
    reserve_large(state.coordinates_, 6 * count);  // two dimensions, one box
    reserve_large(state.characters_, 48 * count);
    reserve_large(state.cuts_, 4 * count);
    read_entries(in, state, count);
  } catch (const Error& error) {
    throw Error(ErrorKind::corrupt, error.message());
  }
  if (!in.at_end()) fail_corrupt("state of rank {}: {} bytes too many", state.rank(), in.remaining());
  return state;
}

}  // namespace cairn
