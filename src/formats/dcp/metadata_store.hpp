// SPDX-License-Identifier: BSD-3-Clause
// The values of a `.metadata` while it is read. Of the classes that come once for each chunk or tensor, an
// instance is a row with just the fields that count; its __dict__ is forgotten as soon as BUILD has taken
// them. Everything else is a node of the arena.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/pool.hpp"
#include "pickle/value.hpp"

namespace cairn::dcp {

using pickle::Value;

enum class RowClass : std::uint8_t { chunk, index, place, tensor };
/// The Python class: ChunkStorageMetadata, MetadataIndex, _StorageInfo, TensorStorageMetadata.
std::string_view class_name(RowClass type);

/// A field that the instance has not.
constexpr Value kAbsent{~std::uint64_t{0}};

// Positions of the fields in their rows.
enum ChunkField : std::uint8_t { kChunkOffsets, kChunkSizes };
enum IndexField : std::uint8_t { kIndexFqn, kIndexOffset };
enum PlaceField : std::uint8_t { kPlacePath, kPlaceOffset, kPlaceLength, kPlaceTransforms };
enum TensorField : std::uint8_t { kTensorProperties, kTensorSize, kTensorChunks };

class MetadataStore : public pickle::Arena {
 public:
  // --- hiding Arena's, for the machine --------------------------------------------------------------------
  Value dict();
  Value global(std::string_view module, std::string_view name);
  Value object(pickle::Construct how, Value callable, Value args, Value kwargs = {});
  void set_state(Value object, Value state);
  /// Throws unsupported when the dict was an instance's and is forgotten.
  void dict_fetched(Value dict);

  // --- looking --------------------------------------------------------------------------------------------
  /// The fields of an instance; empty if `value` is none of that class.
  std::span<const Value> row(RowClass type, Value value) const {
    if (value.kind() != pickle::Kind::row || row_class(value) != type) return {};
    return rows_[number(type)].span(pickle::index_of(value) >> 2, kWidths[number(type)]);
  }
  static RowClass row_class(Value row) { return static_cast<RowClass>(pickle::index_of(row) & 3); }

  std::size_t memory_bytes() const;

 private:
  static constexpr std::array<std::size_t, 4> kWidths{2, 2, 4, 3};
  static constexpr std::size_t number(RowClass type) { return static_cast<std::size_t>(type); }

  struct Class {
    Value global;
    RowClass type;
  };
  struct Field {
    std::string_view name;
    Value last_key = kAbsent;  // the key it had last: the same str object nearly always
  };

  bool is_field(Field& field, Value key) const;
  void recycle(Value dict);

  std::vector<Class> classes_;
  std::array<std::array<Field, 4>, 4> fields_{{
      {{{"offsets"}, {"sizes"}}},
      {{{"fqn"}, {"offset"}}},
      {{{"relative_path"}, {"offset"}, {"length"}, {"transform_descriptors"}}},
      {{{"properties"}, {"size"}, {"chunks"}}},
  }};
  std::array<Pool<Value>, 4> rows_;
  std::vector<Value> free_dicts_, recycled_dicts_;
  bool dicts_are_shared_ = false, row_is_new_ = false;
};

}  // namespace cairn::dcp
