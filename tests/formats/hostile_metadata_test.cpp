// SPDX-License-Identifier: BSD-3-Clause
// Pickles that use one value very many times: what is read out of them must stay in proportion to the file.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/byte_writer.hpp"
#include "failure_of.hpp"
#include "formats/dcp/metadata_decoder.hpp"

namespace cairn::dcp {
namespace {

using namespace std::string_literals;

constexpr int kTimes = 2000;

/// Opcodes, as text. Values are kept under memo numbers of four bytes.
std::string text(std::string_view value) {
  ByteWriter out;
  out.text("X");
  out.write(static_cast<std::uint32_t>(value.size()));
  out.text(value);
  return std::string(as_text(out.view()));
}
std::string numbered(std::string_view op, std::uint32_t number) {
  ByteWriter out;
  out.text(op);
  out.write(number);
  return std::string(as_text(out.view()));
}
std::string kept(const std::string& value, std::uint32_t number) { return value + numbered("r", number); }
std::string fetched(std::uint32_t number) { return numbered("j", number); }

std::string times(const std::string& value, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += value;
  return all;
}
std::string list_of(const std::string& items) { return "](" + items + "e"; }
std::string tuple_of(const std::string& items) { return "(" + items + "t"; }
std::string dict_of(const std::string& items) { return "}(" + items + "u"; }
std::string instance(const std::string& type, const std::string& fields) {
  return "ctorch.distributed.checkpoint.metadata\n" + type + "\n)\x81" + dict_of(fields) + "b";
}

std::string metadata(const std::string& states, const std::string& stored, const std::string& paths = "") {
  return "\x80\x04" +
         instance("Metadata", text("state_dict_metadata") + dict_of(states) + text("planner_data") +
                                  dict_of(paths) + text("storage_data") + dict_of(stored)) +
         ".";
}

std::string tensor(const std::string& size, const std::string& chunks) {
  const std::string properties = instance("TensorProperties", text("dtype") + "ctorch\nfloat32\n");
  return instance("TensorStorageMetadata",
                  text("properties") + properties + text("size") + size + text("chunks") + chunks);
}
std::string index(const std::string& name, const std::string& offset) {
  return instance("MetadataIndex", text("fqn") + text(name) + text("offset") + offset);
}
std::string place() {
  return instance("_StorageInfo", text("relative_path") + text("a.distcp") + text("offset") + "K\0"s +
                                      text("length") + "K\x01");
}

/// `value(true)` the first time, then `value(false)`.
template <class Value>
std::string many(Value value) {
  std::string all;
  for (int i = 0; i < kTimes; ++i) all += value(i, i == 0);
  return all;
}

Error refused(const std::string& pickle) {
  FaultList faults;
  return failure_of([&] { decode_metadata(as_bytes(pickle), "test", faults); });
}

void expect_corrupt(const std::string& pickle, std::string_view words) {
  const Error error = refused(pickle);
  EXPECT_EQ(error.kind(), ErrorKind::corrupt) << error.what();
  EXPECT_TRUE(contains(error, words)) << error.what();
}

TEST(HostileMetadata, ARowOfCallsOfCallsIsDescribedWithoutRecursion) {
  const Error error = refused("\x80\x02" + "ctorch\nX\n"s + times(")R", 1000000) + ".");
  EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
}

TEST(HostileMetadata, OneLongOffsetInManyRows) {
  const std::string offset = kept(tuple_of(times("K\x01", kTimes)), 1);
  expect_corrupt(metadata("", many([&](int i, bool first) {
                            return index(std::to_string(i), first ? offset : fetched(1)) + place();
                          })),
                 "shared values");
}

TEST(HostileMetadata, OneLongOffsetInManyChunksWithoutSizes) {
  const std::string offset = kept(tuple_of(times("K\x01", kTimes)), 1);
  const std::string chunks = list_of(many([&](int, bool first) {
    return instance("ChunkStorageMetadata", text("offsets") + (first ? offset : fetched(1)));
  }));
  expect_corrupt(metadata(text("w") + tensor(tuple_of("K\x01"), chunks), ""), "shared values");
}

TEST(HostileMetadata, OneLongShapeThatIsNoneInManyTensors) {
  const std::string size = kept(tuple_of(times("K\x01", kTimes) + "N"), 1);
  expect_corrupt(metadata(many([&](int i, bool first) {
                            return text(std::to_string(i)) + tensor(first ? size : fetched(1), "]");
                          }),
                          ""),
                 "shared values");
}

TEST(HostileMetadata, WhatIsSaidOfManyFaultsUnderOneLongNameIsBounded) {
  const std::string name(100'000, 'w');
  const std::string chunk = kept(instance("ChunkStorageMetadata", ""), 1);
  const auto chunks = list_of(many([&](int, bool first) { return first ? chunk : fetched(1); }));
  FaultList faults;
  decode_metadata(as_bytes(metadata(text(name) + tensor(tuple_of("K\x01"), chunks), "")), "test", faults);
  EXPECT_EQ(faults.count(), kTimes);
  std::size_t bytes = 0;
  for (const Fault& fault : faults.faults()) bytes += fault.name.size() + fault.message.size();
  EXPECT_LT(bytes, 5u << 20);
}

TEST(HostileMetadata, OneShapeOfManyTensors) {
  const std::string size = kept(tuple_of(times("K\x01", kTimes)), 1);
  expect_corrupt(metadata(many([&](int i, bool first) {
                            return text(std::to_string(i)) + tensor(first ? size : fetched(1), "]");
                          }),
                          ""),
                 "shared values");
}

TEST(HostileMetadata, OneListOfChunksInManyTensors) {
  const std::string empty = tuple_of("K\0"s);
  const std::string chunk =
      kept(instance("ChunkStorageMetadata", text("offsets") + empty + text("sizes") + empty), 2);
  const std::string chunks = kept(list_of(chunk + times(fetched(2), kTimes)), 1);
  expect_corrupt(metadata(many([&](int i, bool first) {
                            return text(std::to_string(i)) + tensor(empty, first ? chunks : fetched(1));
                          }),
                          ""),
                 "shared values");
}

TEST(HostileMetadata, OnePathOfManyNames) {
  const std::string path = kept(tuple_of(times(text("step"), kTimes)), 1);
  const auto name = [](int i) { return text(std::to_string(i)); };
  expect_corrupt(metadata(many([&](int i, bool) { return name(i) + tensor(tuple_of("K\x01"), "]"); }), "",
                          many([&](int i, bool first) { return name(i) + (first ? path : fetched(1)); })),
                 "shared values");
}

// Each look at a field goes through the dict, which may be the state of a million instances.
TEST(HostileMetadata, AnInstanceOfVeryManyFieldsIsNone) {
  std::string fields = text("fqn") + text("name");
  for (int i = 0; i < kTimes; ++i) fields += text("field " + std::to_string(i)) + "N";
  expect_corrupt(metadata("", instance("MetadataIndex", fields) + place()),
                 "MetadataIndex with a name expected");
}

// The dict of an instance is forgotten when the instance is read: one that comes again must not pass for
// another's.
TEST(HostileMetadata, InstancesThatShareTheirDictAreRefused) {
  const std::string type = "ctorch.distributed.checkpoint.metadata\nMetadataIndex\n)\x81";
  const std::string fields = kept("}", 1) + "(" + text("fqn") + text("name") + "u";
  const Error error =
      refused(metadata("", type + fields + "b" + place() + type + fetched(1) + "b" + place()));
  EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
  EXPECT_TRUE(contains(error, "__dict__")) << error.what();
}

TEST(HostileMetadata, AnInstanceWithoutStateHasNoFields) {
  expect_corrupt(metadata("", "ctorch.distributed.checkpoint.metadata\nMetadataIndex\n)\x81" + place()),
                 "MetadataIndex with a name expected");
}

TEST(HostileMetadata, APlaceWhereAnIndexBelongs) {
  expect_corrupt(metadata("", place() + place()), "an instance of _StorageInfo");
}

std::string chunk_at(int row) {
  const std::string offsets = tuple_of("K" + std::string(1, static_cast<char>(row)));
  return instance("ChunkStorageMetadata", text("offsets") + offsets + text("sizes") + tuple_of("K\x01"));
}
std::string stored_at(const std::string& name, int row, int byte_offset) {
  return index(name, tuple_of("K" + std::string(1, static_cast<char>(row)))) +
         instance("_StorageInfo", text("relative_path") + text("a.distcp") + text("offset") + "K" +
                                      std::string(1, static_cast<char>(byte_offset)) + text("length") +
                                      "K\x01");
}
std::vector<std::uint64_t> places_of_three(const std::string& stored) {
  FaultList faults;
  const auto pickle = metadata(
      text("w") + tensor(tuple_of("K\x03"), list_of(chunk_at(0) + chunk_at(1) + chunk_at(2))), stored);
  const Catalog catalog = decode_metadata(as_bytes(pickle), "test", faults).catalog;
  std::vector<std::uint64_t> places;
  for (const StoredItem& chunk : catalog.chunks()) places.push_back(chunk.byte_offset);
  return places;
}

using Places = std::vector<std::uint64_t>;

TEST(StorageRows, AreFoundInAnyOrderAndAmongOthers) {
  EXPECT_EQ(places_of_three(stored_at("w", 0, 5) + stored_at("w", 1, 6) + stored_at("w", 2, 7)),
            (Places{5, 6, 7}));
  EXPECT_EQ(places_of_three(stored_at("w", 2, 7) + stored_at("w", 1, 6) + stored_at("w", 0, 5)),
            (Places{5, 6, 7}));
  EXPECT_EQ(places_of_three(stored_at("w", 0, 5) + stored_at("v", 1, 9) + stored_at("w", 1, 6) +
                            stored_at("v", 0, 8) + stored_at("w", 2, 7)),
            (Places{5, 6, 7}));
}

TEST(StorageRows, OfEqualKeysTheLastCountsAsInAPythonDict) {
  EXPECT_EQ(places_of_three(stored_at("w", 0, 5) + stored_at("w", 1, 6) + stored_at("w", 2, 7) +
                            stored_at("w", 1, 9)),
            (Places{5, 9, 7}));
}

TEST(HostileMetadata, RealProportionsArePlain) {
  FaultList faults;
  const auto shape = tuple_of(times("K\x02", 64));
  const auto origin = tuple_of(times("K\0"s, 64));
  const auto chunk = instance("ChunkStorageMetadata", text("offsets") + origin + text("sizes") + origin);
  const auto pickle =
      metadata(many([&](int i, bool) { return text(std::to_string(i)) + tensor(origin, list_of(chunk)); }),
               many([&](int i, bool) { return index(std::to_string(i), origin) + place(); }));
  EXPECT_EQ(decode_metadata(as_bytes(pickle), "test", faults).catalog.chunks().size(), kTimes);
  EXPECT_TRUE(faults.empty());
}

}  // namespace
}  // namespace cairn::dcp
