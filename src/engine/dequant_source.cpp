// SPDX-License-Identifier: BSD-3-Clause
#include "engine/dequant_source.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>

#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "base/keyed_hash.hpp"
#include "base/text.hpp"
#include "engine/box_reader.hpp"
#include "engine/storage_crc.hpp"
#include "plan/linear.hpp"
#include "plan/names/name_list.hpp"
#include "tensor/cast.hpp"

namespace cairn {
namespace {

constexpr std::string_view kSuffix = "_scale_inv";
/// Numbers of chunks that are computed, where numbers of files stand; DirectorySource's are below.
constexpr std::uint32_t kFirstComputed = kFirstExpanded + 0x40000000;
constexpr std::size_t kElementsAtOnce = 128 << 10;
constexpr std::size_t kScratchBytes = 64 << 10;
constexpr std::uint64_t kFewChunks = 8;

static_assert(kElementsAtOnce + kScratchBytes * 2 <= kDequantBytesPerThread);

bool is_computable(DType dtype) { return dtype == DType::float8_e4m3fn || dtype == DType::float8_e5m2; }

bool is_8_bit_float(DType dtype) { return info(dtype).name.starts_with("float8_"); }

// The value of an 8-bit float with `mantissa` bits, exact in float32.
float value_of(std::uint8_t bits, int mantissa, int bias, bool has_infinity) {
  const std::uint32_t sign = std::uint32_t{bits & 0x80u} << 24, magnitude = bits & 0x7fu;
  const std::uint32_t exponent = magnitude >> mantissa, fraction = magnitude & ((1u << mantissa) - 1);
  const std::uint32_t top = 0x7fu >> mantissa;
  constexpr std::uint32_t infinity = 0x7f800000, quiet = 0x7fc00000;
  std::uint32_t result;
  if (has_infinity ? exponent == top : magnitude == 0x7f) {
    result = has_infinity && fraction == 0 ? infinity : quiet;
  } else if (exponent > 0) {
    result = ((exponent + 127 - static_cast<std::uint32_t>(bias)) << 23) | (fraction << (23 - mantissa));
  } else {
    const float step = std::bit_cast<float>(static_cast<std::uint32_t>(127 + 1 - bias - mantissa) << 23);
    result = std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * step);
  }
  return std::bit_cast<float>(sign | result);
}

using Values = std::array<float, 256>;

Values values_of(int mantissa, int bias, bool has_infinity) {
  Values values;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = value_of(static_cast<std::uint8_t>(i), mantissa, bias, has_infinity);
  return values;
}

const Values& values_of(DType dtype) {
  static const Values e4m3fn = values_of(3, 7, false), e5m2 = values_of(2, 15, true);
  return dtype == DType::float8_e4m3fn ? e4m3fn : e5m2;
}

std::string quoted(std::string_view name) { return fmt::format("'{}'", escape_name(name)); }

// Blocks that rows or columns [begin, begin + count) have a part in.
std::pair<std::int64_t, std::int64_t> blocks(std::int64_t begin, std::int64_t count) {
  const std::int64_t first = begin / kScaleBlock;
  return {first, (begin + count + kScaleBlock - 1) / kScaleBlock - first};
}

}  // namespace

DequantSource::DequantSource(std::unique_ptr<CheckpointSource> source, bool verify_source)
    : source_(std::move(source)), verify_source_(verify_source), indices_(source_->catalog()) {
  pair_up();
  make_catalog();
}

// --- which tensors ----------------------------------------------------------------------------------------

void DequantSource::pair_up() {
  const Catalog& catalog = source_->catalog();
  std::unordered_map<std::string_view, std::uint32_t, KeyedHash> by_name;
  for (std::uint32_t i = 0; i < catalog.tensors().size(); ++i) by_name.emplace(catalog.name(stored(i)), i);
  scales_.assign(catalog.tensors().size(), kNone);
  is_companion_.assign(catalog.tensors().size(), false);
  std::vector<std::string> widows;
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < catalog.tensors().size(); ++i) {
    const std::string_view name = catalog.name(stored(i));
    if (name.ends_with(kSuffix)) {
      const auto found = by_name.find(name.substr(0, name.size() - kSuffix.size()));
      if (found == by_name.end()) {
        fail(ErrorKind::mismatch, "dequant: {} is a companion, and there is no tensor {}", quoted(name),
             quoted(name.substr(0, name.size() - kSuffix.size())));
      }
      require_pair(stored(found->second), stored(i));
      scales_[found->second] = i;
      is_companion_[i] = true;
      companions_.emplace_back(name);
    } else if (is_8_bit_float(stored(i).dtype)) {
      ++count;
      if (!by_name.contains(std::string(name) + std::string(kSuffix))) widows.emplace_back(name);
    }
  }
  if (!widows.empty()) {
    fail(ErrorKind::mismatch, "dequant: tensors of 8-bit floats without a companion NAME{}: {}", kSuffix,
         list_names(widows));
  }
  if (count == 0) {
    fail(ErrorKind::not_found, "dequant: none of {} tensors has a type of 8-bit floats",
         catalog.tensors().size());
  }
}

void DequantSource::require_pair(const TensorInfo& tensor, const TensorInfo& scale) const {
  const Catalog& catalog = source_->catalog();
  const std::string pair =
      fmt::format("dequant: {} and {}", quoted(catalog.name(tensor)), quoted(catalog.name(scale)));
  if (!is_computable(tensor.dtype)) {
    const auto kind = is_8_bit_float(tensor.dtype) ? ErrorKind::unsupported : ErrorKind::mismatch;
    fail(kind, "{}: the tensor is {}, float8_e4m3fn or float8_e5m2 expected", pair, info(tensor.dtype).name);
  }
  if (scale.dtype != DType::float32) {
    fail(ErrorKind::mismatch, "{}: the companion is {}, float32 expected", pair, info(scale.dtype).name);
  }
  const auto shape = catalog.shape(tensor), blocks_of = catalog.shape(scale);
  if (shape.size() != 2)
    fail(ErrorKind::mismatch, "{}: the tensor has shape {}, two dimensions expected", pair, to_string(shape));
  const std::vector<std::int64_t> expected{blocks(0, shape[0]).second, blocks(0, shape[1]).second};
  if (!std::ranges::equal(blocks_of, expected)) {
    fail(ErrorKind::mismatch, "{}: the companion has shape {}, {} expected for blocks of {} x {} of {}", pair,
         to_string(blocks_of), to_string(expected), kScaleBlock, kScaleBlock, to_string(shape));
  }
}

// Strings keep their numbers: torch's pickles, and integer keys, go by them.
void DequantSource::make_catalog() {
  const Catalog& from = source_->catalog();
  for (StringId id = 0; id < from.string_count(); ++id) catalog_.add_string(from.text(id));
  for (const std::string& file : from.files()) catalog_.add_file(file);
  for (const Entry& entry : from.entries()) {
    if (entry.is_tensor) {
      if (is_companion_[entry.index]) continue;
      const TensorInfo& tensor = stored(entry.index);
      const bool computed = scales_[entry.index] != kNone;
      catalog_.add_tensor(tensor.name, computed ? DType::bfloat16 : tensor.dtype, from.shape(tensor));
      for (const StoredItem& chunk : from.chunks(tensor)) {
        catalog_.add_chunk(from.box(tensor, chunk), chunk.file, chunk.byte_offset, chunk.byte_length,
                           chunk.transform);
      }
      origins_.push_back({entry.index, scales_[entry.index]});
    } else {
      const ObjectInfo& object = from.objects()[entry.index];
      catalog_.add_object(object.name, object.item.file, object.item.byte_offset, object.item.byte_length,
                          object.item.transform);
    }
    if (entry.has_path) catalog_.set_path(from.path(entry));
  }
}

// --- chunks -----------------------------------------------------------------------------------------------

const TensorInfo& DequantSource::tensor_of(std::uint64_t chunk) const {
  return tensor_of_chunk(catalog_, chunk);
}

std::uint64_t DequantSource::stored_chunk(const TensorInfo& tensor, std::uint64_t chunk) const {
  return stored(origin(tensor).tensor).first_chunk + (chunk - tensor.first_chunk);
}

const ObjectInfo& DequantSource::stored_object(const ObjectInfo& object) const {
  return source_->catalog().objects()[static_cast<std::size_t>(&object - catalog_.objects().data())];
}

std::optional<FileRange> DequantSource::small_item(std::uint64_t chunk) const {
  const TensorInfo& tensor = tensor_of(chunk);
  if (origin(tensor).scale != kNone) return std::nullopt;
  return source_->small_item(stored_chunk(tensor, chunk));
}

class DequantSource::Locator final : public ItemLocator {
 public:
  explicit Locator(const DequantSource& source) : source_(source), stored_(source.source_->item_locator()) {}

  const ChunkPlace& locate(const TensorInfo& tensor, std::uint64_t chunk,
                           std::span<const std::byte> item) override {
    return stored_->locate(source_.stored(source_.origin(tensor).tensor), source_.stored_chunk(tensor, chunk),
                           item);
  }

 private:
  const DequantSource& source_;
  std::unique_ptr<ItemLocator> stored_;
};

std::unique_ptr<ItemLocator> DequantSource::item_locator() { return std::make_unique<Locator>(*this); }

std::shared_ptr<const ChunkPlace> DequantSource::locate(const TensorInfo& tensor, std::uint64_t chunk) {
  if (origin(tensor).scale == kNone)
    return source_->locate(stored(origin(tensor).tensor), stored_chunk(tensor, chunk));
  const BoxView box = catalog_.box(tensor, catalog_.chunks()[chunk]);
  if (chunk >= kNoFile - kFirstComputed)
    fail(ErrorKind::unsupported, "dequant: more than {} chunks", kNoFile - kFirstComputed);
  ChunkPlace place;
  place.file = kFirstComputed + static_cast<std::uint32_t>(chunk);
  place.strides = contiguous_strides(box.sizes);
  place.storage_bytes = static_cast<std::uint64_t>(element_count(box.sizes)) * element_size(DType::bfloat16);
  place.row_major = true;
  return std::make_shared<const ChunkPlace>(std::move(place));
}

void DequantSource::read(std::uint32_t file, std::uint64_t byte_offset, std::span<std::byte> into) {
  if (file < kFirstComputed) return source_->read(file, byte_offset, into);
  const std::uint64_t chunk = file - kFirstComputed;
  const TensorInfo& tensor = tensor_of(chunk);
  constexpr std::uint64_t wide = 2;
  if (byte_offset % wide != 0 || into.size() % wide != 0) {
    fail(ErrorKind::invalid_argument, "dequant: {} bytes at byte {} are no whole elements", into.size(),
         byte_offset);
  }
  if (byte_offset == 0 && verify_source_) compare_crc(tensor, chunk);
  for (std::uint64_t at = 0; at < into.size();) {
    const auto next = into.subspan(at, std::min<std::uint64_t>(into.size() - at, kElementsAtOnce * wide));
    read_elements(tensor, chunk, static_cast<std::int64_t>((byte_offset + at) / wide), next);
    at += next.size();
  }
}

std::uint64_t DequantSource::copy(std::uint32_t file, std::uint64_t byte_offset, std::uint64_t bytes,
                                  File& output, std::uint64_t output_offset) {
  return file < kFirstComputed ? source_->copy(file, byte_offset, bytes, output, output_offset) : 0;
}

// --- elements ---------------------------------------------------------------------------------------------

// Elements of the chunk from number `begin` on, in row-major order.
void DequantSource::read_elements(const TensorInfo& tensor, std::uint64_t chunk, std::int64_t begin,
                                  std::span<std::byte> into) {
  const auto [weight, scale] = origin(tensor);
  const Values& values = values_of(stored(weight).dtype);
  const BoxView box = catalog_.box(tensor, catalog_.chunks()[chunk]);
  const auto end = begin + static_cast<std::int64_t>(into.size() / 2);
  std::vector<std::byte> bits;
  std::vector<float> scales;
  for_each_box(box.sizes, begin, end, [&, scale = scale](BoxView part) {
    const Box wanted{{box.offsets[0] + part.offsets[0], box.offsets[1] + part.offsets[1]},
                     {part.sizes.begin(), part.sizes.end()}};
    const std::int64_t rows = wanted.sizes[0], columns = wanted.sizes[1];
    bits.resize(static_cast<std::size_t>(rows * columns));
    read_chunk_part(stored(origin(tensor).tensor), stored_chunk(tensor, chunk), wanted, bits.data());
    const auto [row_block, row_blocks] = blocks(wanted.offsets[0], rows);
    const auto [column_block, column_blocks] = blocks(wanted.offsets[1], columns);
    scales.resize(static_cast<std::size_t>(row_blocks * column_blocks));
    read_box(scale, Box{{row_block, column_block}, {row_blocks, column_blocks}},
             std::as_writable_bytes(std::span(scales)).data());
    std::array<float, kScaleBlock> products;
    const std::byte* from = bits.data();
    for (std::int64_t i = 0; i < rows; ++i) {
      const float* const of_row =
          scales.data() + ((wanted.offsets[0] + i) / kScaleBlock - row_block) * column_blocks;
      for (std::int64_t j = 0; j < columns;) {
        const std::int64_t column = wanted.offsets[1] + j, block = column / kScaleBlock;
        const auto count =
            static_cast<std::size_t>(std::min((block + 1) * kScaleBlock - column, columns - j));
        const float factor = of_row[block - column_block];
        for (std::size_t k = 0; k < count; ++k)
          products[k] = values[std::to_integer<std::uint8_t>(from[k])] * factor;
        cast(into.first(count * 2), DType::bfloat16, std::as_bytes(std::span(products).first(count)),
             DType::float32);
        into = into.subspan(count * 2);
        from += count;
        j += static_cast<std::int64_t>(count);
      }
    }
  });
}

// A box of a tensor of the source, from whatever chunks it lies in.
void DequantSource::read_box(std::uint32_t number, BoxView wanted, std::byte* target) {
  const Catalog& catalog = source_->catalog();
  const TensorInfo& tensor = stored(number);
  const auto read = [&](std::uint64_t i) {
    const std::uint64_t chunk = tensor.first_chunk + i;
    if (overlaps(catalog.box(tensor, catalog.chunks()[chunk]), wanted))
      read_chunk_part(tensor, chunk, wanted, target);
  };
  if (tensor.chunk_count > kFewChunks)
    return indices_.of(number)->for_each_overlap(wanted, [&](std::size_t i) { read(i); });
  for (std::uint64_t i = 0; i < tensor.chunk_count; ++i) read(i);
}

// What the chunk has of the box goes to its place in the box, which lies at `target` in row-major order.
void DequantSource::read_chunk_part(const TensorInfo& tensor, std::uint64_t chunk, BoxView wanted,
                                    std::byte* target) {
  const Catalog& catalog = source_->catalog();
  const std::uint64_t bytes = element_size(tensor.dtype);
  const BoxView box = catalog.box(tensor, catalog.chunks()[chunk]);
  const auto place = source_->locate(tensor, chunk);
  const ElementRun run{wanted, bytes, 0, element_count(wanted.sizes), target};
  SharedBox shared;
  if (!share(run, wanted, box, *place, shared)) return;
  std::vector<std::byte> scratch(kScratchBytes);
  with_context([&] { return quoted(catalog.name(tensor)); },
               [&] {
                 BoxReader(*source_, scratch)
                     .read(*place, shared.from_byte, shared.dims, target + shared.to_byte, bytes);
               });
}

void DequantSource::compare_crc(const TensorInfo& tensor, std::uint64_t chunk) {
  const Catalog& catalog = source_->catalog();
  const TensorInfo& weight = stored(origin(tensor).tensor);
  const std::uint64_t number = stored_chunk(tensor, chunk);
  const auto place = source_->locate(weight, number);
  const BoxView box = catalog.box(weight, catalog.chunks()[number]);
  if (place->storage_crc == 0 || place->storage_bytes != static_cast<std::uint64_t>(element_count(box.sizes)))
    return;
  std::vector<std::byte> piece(kScratchBytes);
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < place->storage_bytes;) {
    const auto next =
        std::span(piece).first(std::min<std::uint64_t>(piece.size(), place->storage_bytes - at));
    source_->read(place->file, place->storage_begin + at, next);
    crc = crc32(next, crc);
    at += next.size();
  }
  compare_storage(catalog, weight, number, *place, crc);
}

// --- objects ----------------------------------------------------------------------------------------------

pickle::Value DequantSource::read_object(pickle::Arena& arena, const ObjectInfo& object) {
  return source_->read_object(arena, stored_object(object));
}

RecordContent DequantSource::find_storage(const pickle::Arena& arena, pickle::Value id,
                                          const ObjectInfo& object) {
  return source_->find_storage(arena, id, stored_object(object));
}

}  // namespace cairn
