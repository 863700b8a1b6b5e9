// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/rank_metadata.hpp"

#include <gtest/gtest.h>

#include "failure_of.hpp"
#include "temp_dir.hpp"

namespace cairn::dcp {
namespace {

/// Metadata of a rank whose file is `__R_0.distcp`.
struct RankMetadata {
  explicit RankMetadata(int rank) { made.catalog.add_file("__" + std::to_string(rank) + "_0.distcp"); }

  RankMetadata& tensor(std::string_view name, DType dtype, std::vector<std::int64_t> shape) {
    made.catalog.add_tensor(made.catalog.add_string(name), dtype, shape);
    return *this;
  }
  RankMetadata& chunk(std::vector<std::int64_t> offsets, std::vector<std::int64_t> sizes, std::uint64_t at) {
    made.catalog.add_chunk({offsets, sizes}, 0, at, 10);
    return *this;
  }
  RankMetadata& object(std::string_view name, std::uint64_t at) {
    made.catalog.add_object(made.catalog.add_string(name), 0, at, 5);
    return *this;
  }
  DecodedMetadata made;
};

struct Joined {
  DecodedMetadata metadata;
  FaultList faults;
};

Joined join(std::initializer_list<RankMetadata*> ranks) {
  std::vector<DecodedMetadata> all;
  for (RankMetadata* rank : ranks) all.push_back(std::move(rank->made));
  Joined joined;
  joined.metadata = join_rank_metadata(all, joined.faults);
  return joined;
}

TEST(RankMetadata, ChunksOfAllRanksMakeUpATensor) {
  RankMetadata first(0), second(1);
  first.tensor("w", DType::float32, {5, 2}).chunk({0, 0}, {3, 2}, 100);
  second.tensor("w", DType::float32, {5, 2}).chunk({3, 0}, {2, 2}, 200);
  const auto [metadata, faults] = join({&first, &second});
  EXPECT_TRUE(faults.empty());
  const Catalog& catalog = metadata.catalog;
  ASSERT_EQ(catalog.tensors().size(), 1u);
  ASSERT_EQ(catalog.chunks().size(), 2u);
  EXPECT_EQ(catalog.files()[catalog.chunks()[0].file], "__0_0.distcp");
  EXPECT_EQ(catalog.files()[catalog.chunks()[1].file], "__1_0.distcp");
  EXPECT_EQ(catalog.chunks()[1].byte_offset, 200u);
  EXPECT_EQ(catalog.box(catalog.tensors()[0], catalog.chunks()[1]).offsets[0], 3);
}

TEST(RankMetadata, OfReplicasTheLowestRanksIsTaken) {
  RankMetadata first(0), second(1);
  first.tensor("r", DType::int64, {4}).chunk({0}, {4}, 100).object("step", 300);
  second.tensor("r", DType::int64, {4}).chunk({0}, {4}, 200).object("step", 400);
  const auto [metadata, faults] = join({&first, &second});
  EXPECT_TRUE(faults.empty());
  ASSERT_EQ(metadata.catalog.chunks().size(), 1u);
  EXPECT_EQ(metadata.catalog.chunks()[0].byte_offset, 100u);
  ASSERT_EQ(metadata.catalog.objects().size(), 1u);
  EXPECT_EQ(metadata.catalog.objects()[0].item.byte_offset, 300u);
  ASSERT_EQ(metadata.notes.size(), 1u);
  EXPECT_NE(metadata.notes[0].find("1 objects are in the metadata of several ranks"), std::string::npos);
}

TEST(RankMetadata, WhatOneRankHasAloneFollowsWhatIsKnown) {
  RankMetadata first(0), second(1);
  first.object("a", 1).object("c", 2);
  second.object("b", 3).object("c", 4);
  const auto [metadata, faults] = join({&first, &second});
  std::string order;
  for (const Entry& entry : metadata.catalog.entries()) order += metadata.catalog.name(entry);
  EXPECT_EQ(order, "acb");
}

TEST(RankMetadata, PathsAreKept) {
  RankMetadata first(0), second(1);
  for (RankMetadata* rank : {&first, &second}) {
    rank->object("list.0", 1);
    Catalog& catalog = rank->made.catalog;
    catalog.set_path(std::vector<PathStep>{{catalog.add_string("list"), false}, {0, true}});
  }
  const auto [metadata, faults] = join({&first, &second});
  const auto path = metadata.catalog.path(metadata.catalog.entries()[0]);
  ASSERT_EQ(path.size(), 2u);
  EXPECT_EQ(metadata.catalog.text(static_cast<StringId>(path[0].value)), "list");
  EXPECT_TRUE(path[1].is_position);
}

TEST(RankMetadata, RanksThatDisagreeAreFaults) {
  RankMetadata first(0), second(1);
  first.tensor("d", DType::int64, {4}).chunk({0}, {4}, 1).tensor("s", DType::int8, {4}).chunk({0}, {4}, 2);
  second.tensor("d", DType::int32, {4}).chunk({0}, {4}, 3).tensor("s", DType::int8, {5}).chunk({0}, {4}, 4);
  first.object("k", 5);
  second.tensor("k", DType::int8, {1}).chunk({0}, {1}, 6);
  const auto [metadata, faults] = join({&first, &second});
  ASSERT_EQ(faults.count(), 3u);
  EXPECT_EQ(faults.faults()[0].kind, FaultKind::dtype);
  EXPECT_EQ(faults.faults()[1].kind, FaultKind::shape);
  EXPECT_EQ(faults.faults()[2].kind, FaultKind::storage_data);
  EXPECT_NE(faults.faults()[1].message.find("[5] in __1.metadata, [4] in __0.metadata"), std::string::npos)
      << faults.faults()[1].message;
}

TEST(RankMetadata, NamesAreToldFromOthers) {
  EXPECT_EQ(metadata_rank("__12.metadata"), 12);
  for (const auto name : {".metadata", "__.metadata", "__01.metadata", "__-1.metadata", "__1_0.metadata",
                          "__1.metadata.tmp", "__99999999999.metadata"})
    EXPECT_EQ(metadata_rank(name), std::nullopt) << name;
}

TEST(RankMetadata, AMissingFileIsNamed) {
  TempDir dir;
  dir.write("__0.metadata", "x");
  dir.write("__2.metadata", "x");
  EXPECT_EQ(first_metadata_name(posix_file_system(), dir.path()), "__0.metadata");
  FaultList faults;
  const auto damage = failure_of([&] { decode_rank_metadata(posix_file_system(), dir.path(), faults); });
  EXPECT_EQ(damage.kind(), ErrorKind::corrupt);
  EXPECT_TRUE(contains(damage, "/__1.metadata: the file is missing")) << damage.what();
}

}  // namespace
}  // namespace cairn::dcp
