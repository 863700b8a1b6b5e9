// SPDX-License-Identifier: BSD-3-Clause
// Catalogues written and read back; tests/interop/run_writer.py compares with torch's own bytes.
#include "formats/dcp/metadata_encoder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "failure_of.hpp"
#include "formats/dcp/item_order.hpp"
#include "formats/dcp/metadata_decoder.hpp"
#include "pickle/reader.hpp"

namespace cairn::dcp {
namespace {

using pickle::Arena;
using pickle::Value;

Bytes encoded(const Catalog& catalog, const StorageMeta& meta = {"/run/step-10", "a-b"},
              std::span<const std::uint32_t> path_order = {}) {
  Bytes bytes;
  encode_metadata(catalog, meta, path_order, [&](std::span<const std::byte> piece) {
    EXPECT_LE(piece.size(), std::size_t{256} << 10);
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return bytes;
}

/// Everything that a catalogue says, one line each; strings by id too: which are one object counts.
std::vector<std::string> lines(const Catalog& catalog) {
  std::vector<std::string> lines;
  const auto text = [&](StringId id) { return fmt::format("{}:{}", id, catalog.text(id)); };
  const auto place = [&](const StoredItem& item) {
    const std::string file = item.file == kNoFile ? "none" : catalog.files()[item.file];
    return fmt::format("{} {}+{}", file, item.byte_offset, item.byte_length);
  };
  for (const Entry& entry : catalog.entries()) {
    std::string line = entry.is_tensor ? "tensor " : "object ";
    if (entry.is_tensor) {
      const TensorInfo& tensor = catalog.tensors()[entry.index];
      line += fmt::format("{} {} {}", text(tensor.name), info(tensor.dtype).name,
                          to_string(catalog.shape(tensor)));
      for (const StoredItem& chunk : catalog.chunks(tensor))
        line += fmt::format("\n  {} {}", to_string(catalog.box(tensor, chunk)), place(chunk));
    } else {
      const ObjectInfo& object = catalog.objects()[entry.index];
      line += fmt::format("{} {}", text(object.name), place(object.item));
    }
    if (entry.has_path) line += "\n  path";
    for (const PathStep& step : catalog.path(entry))
      line +=
          step.is_position ? fmt::format(" {}", step.value) : " " + text(static_cast<StringId>(step.value));
    lines.push_back(line);
  }
  return lines;
}

Catalog decoded(const Catalog& catalog) {
  FaultList faults;
  auto found = decode_metadata(encoded(catalog), "test", faults);
  EXPECT_TRUE(faults.empty());
  EXPECT_TRUE(found.notes.empty());
  return std::move(found.catalog);
}

void expect_same(const Catalog& catalog) { EXPECT_EQ(lines(decoded(catalog)), lines(catalog)); }

void add_path(Catalog& catalog, std::vector<PathStep> steps) { catalog.set_path(steps); }

/// A tensor cut into a grid of rows × columns chunks of height × width, dealt out to the files in turn.
struct Grid {
  std::int64_t rows, columns, height = 3, width = 5;
};
void add_grid(Catalog& catalog, StringId name, DType dtype, Grid grid, std::vector<std::uint64_t>& ends) {
  const std::array shape{grid.rows * grid.height, grid.columns * grid.width};
  catalog.add_tensor(name, dtype, shape);
  for (std::int64_t i = 0; i < grid.rows * grid.columns; ++i) {
    const std::array offsets{i / grid.columns * grid.height, i % grid.columns * grid.width};
    const std::array sizes{grid.height, grid.width};
    const auto file = static_cast<std::uint32_t>(i) % static_cast<std::uint32_t>(ends.size());
    catalog.add_chunk({offsets, sizes}, file, ends[file], 1500);
    ends[file] += 1500;
  }
}

Catalog with_files(std::uint32_t count) {
  Catalog catalog;
  for (std::uint32_t i = 0; i < count; ++i) catalog.add_file("__" + std::to_string(i) + "_0.distcp");
  return catalog;
}

TEST(DcpMetadataEncoder, NothingAtAll) { expect_same(Catalog()); }

TEST(DcpMetadataEncoder, OneAndManyAroundTheBatches) {
  for (const int count : {1, 2, 255, 999, 1000, 1001, 2000}) {
    Catalog catalog = with_files(1);
    std::vector<std::uint64_t> ends(1);
    for (int i = 0; i < count; ++i) {
      const StringId name = catalog.add_string("layers." + std::to_string(i));
      add_grid(catalog, name, static_cast<DType>(i % 27), {1, 1}, ends);
      add_path(catalog, {{name, false}});
    }
    expect_same(catalog);
  }
}

TEST(DcpMetadataEncoder, TallWideAndGrids) {
  for (const Grid grid :
       {Grid{2048, 1}, Grid{1, 2048}, Grid{64, 40}, Grid{1000, 1, 1, 1 << 20}, Grid{1, 1}}) {
    Catalog catalog = with_files(8);
    std::vector<std::uint64_t> ends(8, std::uint64_t{1} << 33);  // beyond 4 GiB
    add_grid(catalog, catalog.add_string("w"), DType::float8_e5m2, grid, ends);
    expect_same(catalog);
    EXPECT_EQ(items_by_place(catalog).size(), static_cast<std::size_t>(grid.rows * grid.columns));
  }
}

TEST(DcpMetadataEncoder, ObjectsPathsAndOddTensors) {
  Catalog catalog = with_files(1);
  const StringId name = catalog.add_string("a.0.b");
  catalog.add_object(name, 0, 0, 100);
  const StringId a = catalog.add_string("a"), b = catalog.add_string("b");
  add_path(catalog, {{a, false}, {0, true}, {b, false}});
  const StringId scalar = catalog.add_string("a.70000.b");
  catalog.add_tensor(scalar, DType::int64, {});
  catalog.add_chunk({}, 0, 100, 1000);
  add_path(catalog, {{a, false}, {70, true}, {b, false}});
  const StringId deep = catalog.add_string("deep");
  const std::array<std::int64_t, 5> shape{1, 2, 0, 4, 5};
  catalog.add_tensor(deep, DType::complex32, shape);
  const std::array<std::int64_t, 5> zeros{};
  catalog.add_chunk({zeros, shape}, 0, 1100, 900);
  expect_same(catalog);
}

TEST(DcpMetadataEncoder, LongAndStrangeNames) {
  Catalog catalog = with_files(1);
  std::uint64_t at = 0;
  for (const std::string& text : {std::string(255, 'n'), std::string(256, 'n'), std::string(65535, 'n'),
                                  std::string(65536, 'n'), std::string(200000, 'n'), std::string("nul\0x", 5),
                                  std::string("\xc3\xbc"), std::string("\xed\xb2\x80 lone")}) {
    const StringId name = catalog.add_string(text);
    catalog.add_object(name, 0, at, 10);
    add_path(catalog, {{name, false}});
    at += 10;
  }
  EXPECT_TRUE(lines(decoded(catalog)) == lines(catalog));
}

TEST(DcpMetadataEncoder, RandomCatalogues) {
  std::mt19937 random(17);
  const auto below = [&](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int round = 0; round < 50; ++round) {
    Catalog catalog = with_files(1);
    std::vector<std::uint64_t> ends(1);
    const std::int64_t count = 1 + below(30);
    for (std::int64_t i = 0; i < count; ++i) {
      const StringId name = catalog.add_string("name " + std::to_string(i));
      if (below(3) == 0) {
        catalog.add_object(name, 0, ends[0], 77);
        ends[0] += 77;
      } else {
        add_grid(catalog, name, static_cast<DType>(below(27)),
                 {1 + below(6), 1 + below(6), 1 + below(90000), 1 + below(9)}, ends);
      }
      if (below(4) > 0) add_path(catalog, {{name, false}, {below(40), true}});
    }
    expect_same(catalog);
  }
}

TEST(DcpMetadataEncoder, ItemsComeFileByFileInByteOrder) {
  Catalog catalog = with_files(3);
  const std::array<std::int64_t, 1> shape{4}, zero{0}, two{2};
  catalog.add_tensor(catalog.add_string("t"), DType::uint8, shape);
  catalog.add_chunk({zero, two}, 2, 500, 50);
  catalog.add_chunk({two, two}, 0, 700, 50);
  catalog.add_object(catalog.add_string("o"), 2, 0, 500);
  catalog.add_tensor(catalog.add_string("empty"), DType::uint8, zero);
  catalog.add_chunk({zero, zero}, kNoFile, 0, 0);  // no item
  catalog.add_object(catalog.add_string("p"), 0, 10, 690);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> order;
  for (const ItemRef ref : items_by_place(catalog)) order.emplace_back(ref.entry, ref.position);
  EXPECT_EQ(order, (decltype(order){{3, 0}, {0, 1}, {1, 0}, {0, 0}}));

  expect_same(catalog);
}

/// The value under `names`, each an attribute of the one before.
Value attribute(const Arena& arena, Value value, std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    const auto found = arena.find(*arena.object_view(value).state, name);
    if (!found) {
      ADD_FAILURE() << "no attribute " << name;
      return {};
    }
    value = *found;
  }
  return value;
}

std::vector<std::string> texts(const Arena& arena, std::span<const Value> values) {
  std::vector<std::string> found;
  for (const Value value : values) found.emplace_back(arena.text(value));
  return found;
}

TEST(DcpMetadataEncoder, TheDirectoryIsAPathOfPathlib) {
  using Parts = std::vector<std::string>;
  for (const auto& [path, parts] :
       std::vector<std::pair<std::string, Parts>>{{"/a/b/a", {"/", "a", "b", "a"}},
                                                  {"a//b/./c/", {"a", "b", "c"}},
                                                  {"//a", {"//", "a"}},
                                                  {"///a", {"/", "a"}},
                                                  {"/", {"/"}},
                                                  {".", {}},
                                                  {"", {}},
                                                  {"../x", {"..", "x"}},
                                                  {"/caf\xe9", {"/", "caf\xed\xb3\xa9"}}}) {
    Arena arena;
    const Bytes pickle = encoded(Catalog(), {path, "id"});
    const Value id = attribute(arena, pickle::read(arena, pickle, "test"), {"storage_meta", "checkpoint_id"});
    EXPECT_TRUE(arena.is_global(arena.object_view(id).callable, "pathlib", "PosixPath"));
    EXPECT_EQ(texts(arena, arena.items(arena.object_view(id).args)), parts) << path;
  }
}

TEST(DcpMetadataEncoder, AttributesComeLast) {
  Arena arena;
  const Value root =
      pickle::read(arena, encoded(Catalog(), {"/a", "the id", {{"one", "1"}, {"two", ""}}}), "test");
  const auto fields = arena.items(*arena.object_view(root).state);
  ASSERT_EQ(fields.size(), 14u);
  EXPECT_EQ(texts(arena, fields.subspan(8)),
            (std::vector<std::string>{"version", "1.0.0", "one", "1", "two", ""}));
  EXPECT_EQ(arena.text(attribute(arena, root, {"storage_meta", "save_id"})), "the id");
}

TEST(DcpMetadataEncoder, PathsHaveAnOrderOfTheirOwn) {
  Catalog catalog = with_files(1);
  std::uint64_t at = 0;
  for (const std::string text : {"one", "two", "three"}) {
    const StringId name = catalog.add_string(text);
    catalog.add_object(name, 0, at, 10);
    if (text != "two") add_path(catalog, {{name, false}});
    at += 10;
  }
  Arena arena;
  const std::array<std::uint32_t, 2> order{2, 0};
  const Value root = pickle::read(arena, encoded(catalog, {"/a", "id"}, order), "test");
  const auto paths = arena.items(attribute(arena, root, {"planner_data"}));
  ASSERT_EQ(paths.size(), 4u);
  EXPECT_EQ(arena.text(paths[0]), "three");
  EXPECT_EQ(arena.text(paths[2]), "one");
  EXPECT_EQ(paths[0], arena.items(paths[1])[0]) << "name and key are one str";
}

TEST(DcpMetadataEncoder, WithoutPathsThereIsNoPlannerData) {
  Catalog catalog = with_files(1);
  catalog.add_object(catalog.add_string("flat"), 0, 0, 10);
  Arena arena;
  const Value root = pickle::read(arena, encoded(catalog), "test");
  EXPECT_EQ(attribute(arena, root, {"planner_data"}).kind(), pickle::Kind::none);
}

TEST(DcpMetadataEncoder, NamesThatAreNoTextAreRefused) {
  Catalog catalog = with_files(1);
  catalog.add_object(catalog.add_string("bad\xff"), 0, 0, 10);
  EXPECT_EQ(failure_of([&] { encoded(catalog); }).kind(), ErrorKind::invalid_argument);
}

TEST(DcpMetadataEncoder, WhatTheSinkThrowsPassesThrough) {
  EXPECT_EQ(failure_of([] {
              encode_metadata(Catalog(), {}, {}, [](auto) { throw Error(ErrorKind::io, "disk full"); });
            }).kind(),
            ErrorKind::io);
}

}  // namespace
}  // namespace cairn::dcp
