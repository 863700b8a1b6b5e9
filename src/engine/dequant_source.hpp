// SPDX-License-Identifier: BSD-3-Clause
// A checkpoint of 8-bit weights as one of bfloat16: `--dequant` (docs/names-and-casts.md). Local.
//
// A tensor X of float8_e4m3fn or float8_e5m2 with the dimensions [M, N] has a companion `X_scale_inv` of
// float32 with [ceil(M / 128), ceil(N / 128)], as DeepSeek-V3's weights have. Element [i, j] becomes
// float32(X[i, j]) times the companion's [i / 128, j / 128] in float32, rounded to bfloat16 to nearest, ties
// to even. That is what torch's QuantizedHuggingFaceStorageReader computes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/window_filler.hpp"
#include "formats/checkpoint_source.hpp"

namespace cairn {

/// Rows and columns that have one scale.
inline constexpr std::int64_t kScaleBlock = 128;
/// What a thread holds while it reads, beside its own buffers.
inline constexpr std::uint64_t kDequantBytesPerThread = 512 << 10;

class DequantSource final : public CheckpointSource {
 public:
  /// The catalogue has such tensors as bfloat16 and no companions; all else is as in `source`. With
  /// `verify_source` the stored CRC of a chunk's storage is compared when its first element is read. Throws
  /// not_found when there is no tensor of 8-bit floats; mismatch, naming tensors, when one has no companion,
  /// a companion's tensor is of another type or not there, or dimensions or dtype of a companion are others
  /// than expected; unsupported for other 8-bit types.
  DequantSource(std::unique_ptr<CheckpointSource> source, bool verify_source);

  /// Names of the companions, in the catalogue's order.
  const std::vector<std::string>& companions() const { return companions_; }

  const Catalog& catalog() const override { return catalog_; }
  std::optional<FileRange> small_item(std::uint64_t chunk) const override;
  std::unique_ptr<ItemLocator> item_locator() override;
  std::shared_ptr<const ChunkPlace> locate(const TensorInfo& tensor, std::uint64_t chunk) override;
  void read(std::uint32_t file, std::uint64_t byte_offset, std::span<std::byte> into) override;
  std::uint64_t copy(std::uint32_t file, std::uint64_t byte_offset, std::uint64_t bytes, File& output,
                     std::uint64_t output_offset) override;
  std::uint64_t read_bytes() const override { return source_->read_bytes(); }

  pickle::Value read_object(pickle::Arena& arena, const ObjectInfo& object) override;
  RecordContent find_storage(const pickle::Arena& arena, pickle::Value id, const ObjectInfo& object) override;
  std::span<const IntegerKey> integer_keys() const override { return source_->integer_keys(); }
  std::string file_text(std::uint32_t file) const override { return source_->file_text(file); }
  /// The source's: another rank makes the same of it.
  Bytes encode() const override { return source_->encode(); }

 private:
  class Locator;
  struct Origin {
    std::uint32_t tensor, scale;  // of the source; scale is kNone where nothing is to be done
  };
  static constexpr std::uint32_t kNone = 0xffffffff;

  void pair_up();
  void make_catalog();
  void require_pair(const TensorInfo& tensor, const TensorInfo& scale) const;

  const TensorInfo& stored(std::uint32_t tensor) const { return source_->catalog().tensors()[tensor]; }
  std::uint64_t stored_chunk(const TensorInfo& tensor, std::uint64_t chunk) const;
  const Origin& origin(const TensorInfo& tensor) const {
    return origins_[static_cast<std::size_t>(&tensor - catalog_.tensors().data())];
  }
  const TensorInfo& tensor_of(std::uint64_t chunk) const;
  const ObjectInfo& stored_object(const ObjectInfo& object) const;

  void read_elements(const TensorInfo& tensor, std::uint64_t chunk, std::int64_t begin,
                     std::span<std::byte> into);
  void read_box(std::uint32_t tensor, BoxView wanted, std::byte* target);
  void read_chunk_part(const TensorInfo& tensor, std::uint64_t chunk, BoxView wanted, std::byte* target);
  void compare_crc(const TensorInfo& tensor, std::uint64_t chunk);

  std::unique_ptr<CheckpointSource> source_;
  bool verify_source_;
  Catalog catalog_;
  std::vector<std::uint32_t> scales_;  // by the source's tensors: the companion, or kNone
  std::vector<bool> is_companion_;     // likewise
  std::vector<Origin> origins_;        // by the catalogue's tensors
  std::vector<std::string> companions_;
  ChunkIndices indices_;
};

}  // namespace cairn
