// SPDX-License-Identifier: BSD-3-Clause
// safetensors files that are read: what is in them, and what is refused.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/byte_writer.hpp"
#include "failure_of.hpp"
#include "formats/safetensors/dtype_code.hpp"
#include "formats/safetensors/files.hpp"
#include "formats/safetensors/files_layout.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/safetensors/sharding.hpp"
#include "temp_dir.hpp"

namespace cairn::safetensors {
namespace {

using namespace std::string_literals;

/// A file with this header and so many bytes of data.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  ByteWriter out;
  out.write<std::uint64_t>(header.size());
  out.text(header);
  out.fill(std::byte{1}, data_bytes);
  return std::string(as_text(out.view()));
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" +
         offsets + "]}";
}

class Safetensors : public testing::Test {
 protected:
  Contents read(const Site& site) {
    FaultList faults;
    auto contents = read_contents(posix_file_system(), site, faults);
    faults.throw_if_any(site.name);
    return contents;
  }
  Contents read_file(const std::string& content) {
    dir_.write("x.safetensors", content);
    return read({dir_.path(), "x.safetensors"});
  }
  /// The kind of the only fault.
  FaultKind fault_of(const Site& site) {
    FaultList faults;
    read_contents(posix_file_system(), site, faults);
    EXPECT_EQ(faults.count(), 1u);
    if (faults.empty()) return FaultKind::pickle;
    const Fault& fault = faults.faults()[0];
    EXPECT_NE(fault.message.find(fault.file), std::string::npos) << fault.message;
    return faults.faults()[0].kind;
  }
  FaultKind fault_of(const std::string& content) {
    dir_.write("x.safetensors", content);
    return fault_of(Site{dir_.path(), "x.safetensors"});
  }
  std::string refusal(const std::string& content) {
    return failure_of([&] { read_file(content); }).message();
  }
  std::string index_refusal(const std::string& index) {
    dir_.write("m.index.json", index);
    return failure_of([&] { read({dir_.path(), "m.index.json"}); }).message();
  }

  TempDir dir_;
};

bool holds(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

TEST_F(Safetensors, TensorsAreThoseOfTheHeaderInItsOrder) {
  const auto contents =
      read_file(file_of("{\"__metadata__\":{\"format\":\"pt\"}," + tensor("b", "F32", "2,3", "8,32") + "," +
                            tensor("a", "I64", "", "0,8") + "," + tensor("e", "U8", "0,5", "32,32") + "}   ",
                        32));
  const Catalog& catalog = contents.catalog;
  ASSERT_EQ(catalog.tensors().size(), 3u);
  EXPECT_EQ(catalog.name(catalog.tensors()[0]), "b");
  EXPECT_EQ(catalog.tensors()[0].dtype, DType::float32);
  EXPECT_EQ(
      std::vector(catalog.shape(catalog.tensors()[0]).begin(), catalog.shape(catalog.tensors()[0]).end()),
      (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(catalog.chunks()[0].byte_offset, contents.metadata_bytes + 8);
  EXPECT_EQ(catalog.chunks()[0].byte_length, 24u);
  EXPECT_EQ(catalog.tensors()[1].ndim, 0u);
  EXPECT_EQ(catalog.chunks()[2].byte_length, 0u);
}

TEST_F(Safetensors, AFileWithoutTensorsIsOne) {
  EXPECT_TRUE(read_file(file_of("{}", 0)).catalog.tensors().empty());
}

TEST_F(Safetensors, TheLastDimensionOfF4IsHalved) {
  const auto contents = read_file(file_of("{" + tensor("w", "F4", "3,4", "0,6") + "}", 6));
  EXPECT_EQ(contents.catalog.tensors()[0].dtype, DType::float4_e2m1fn_x2);
  EXPECT_EQ(contents.catalog.shape(contents.catalog.tensors()[0])[1], 2);
  EXPECT_EQ(fault_of(file_of("{" + tensor("w", "F4", "4,3", "0,6") + "}", 6)), FaultKind::shape);
  EXPECT_EQ(fault_of(file_of("{" + tensor("w", "F4", "", "0,1") + "}", 1)), FaultKind::shape);
}

TEST_F(Safetensors, CodesAndDtypesAreOneToOne) {
  int codes = 0;
  for (int i = 0; i <= static_cast<int>(DType::bits16); ++i) {
    const auto dtype = static_cast<DType>(i);
    const auto code = code_of(dtype);
    if (!code) continue;
    ++codes;
    EXPECT_EQ(dtype_of(*code), dtype);
  }
  EXPECT_EQ(codes, 20);
  EXPECT_FALSE(code_of(DType::complex128) || code_of(DType::complex32) || code_of(DType::bits8));
  EXPECT_FALSE(dtype_of("F6_E2M3") || dtype_of("f32") || dtype_of(""));
}

TEST_F(Safetensors, LengthsOfHeadersAreChecked) {
  EXPECT_TRUE(holds(refusal("1234567"), "7 bytes"));
  EXPECT_TRUE(holds(refusal("\xff\xff\xff\xff\xff\xff\xff\x7f{}"), "9223372036854775807"));
  EXPECT_TRUE(holds(refusal("\x01\xe1\xf5\x05\0\0\0\0{}"s), "100000001"));
  EXPECT_TRUE(holds(refusal("\x03\0\0\0\0\0\0\0{}"s), "a header of 3 bytes in a file of 10"));
}

TEST_F(Safetensors, WhatIsNoHeaderIsRefused) {
  const std::string good = tensor("a", "U8", "1", "0,1");
  for (const std::string& header :
       {"["s,
        "[]"s,
        "1"s,
        "{"s + good,
        "{"s + good + "}}",
        "{\"a\":1}"s,
        "{"s + good + "}\0   "s,
        "{\"a\":[]}"s,
        "{\"a\":{}}"s,
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}"s,
        "{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,1]}}"s,
        "{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}"s,
        "{\"a\":{\"dtype\":\"U8\",\"shape\":\"1\",\"data_offsets\":[0,1]}}"s,
        "{\"a\":{\"dtype\":[\"U8\"],\"shape\":[1],\"data_offsets\":[0,1]}}"s,
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[[1]],\"data_offsets\":[0,1]}}"s,
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"more\":0}}"s,
        "{" + tensor("a", "U8", "1", "0") + "}",
        "{" + tensor("a", "U8", "1", "0,1,2") + "}",
        "{" + tensor("a", "U8", "-1", "0,1") + "}",
        "{" + tensor("a", "U8", "1.0", "0,1") + "}",
        "{" + tensor("a", "U8", "null", "0,1") + "}",
        "{" + tensor("a", "U8", "18446744073709551615", "0,1") + "}",
        "{" + tensor("a", "U8", "99999999999999999999", "0,1") + "}",
        "{\"__metadata__\":[]," + good + "}",
        "{\"__metadata__\":{\"a\":1}," + good + "}",
        "{\"__metadata__\":{\"a\":{}}," + good + "}",
        "{" + tensor("\xff", "U8", "1", "0,1") + "}",
        std::string(100000, '['),
        "{\"a\":" + std::string(100000, '{')}) {
    const auto error = failure_of([&] { read_file(file_of(header, 1)); });
    EXPECT_EQ(error.kind(), ErrorKind::corrupt) << header.substr(0, 80);
    EXPECT_TRUE(holds(error.message(), "header in x.safetensors at byte 8")) << error.message();
  }
}

TEST_F(Safetensors, KeysThatComeTwiceAreRefused) {
  const std::string a = tensor("a", "U8", "1", "0,1"), b = tensor("a", "U8", "1", "1,2");
  EXPECT_TRUE(holds(refusal(file_of("{" + a + "," + b + "}", 2)), "'a' comes twice"));
  EXPECT_TRUE(
      holds(refusal(file_of("{" + tensor("b", "U8", "1,1],\"shape\":[1", "0,1") + "}", 1)), "'shape' twice"));
  EXPECT_TRUE(holds(refusal(file_of(R"({"__metadata__":{"k":"1","k":"2"}})", 0)), "'k' comes twice"));
  EXPECT_TRUE(holds(refusal(file_of(R"({"__metadata__":{},"__metadata__":{}})", 0)), "twice"));
}

TEST_F(Safetensors, EveryByteOfTheDataBelongsToOneTensor) {
  const auto two = [](const char* first, const char* second) {
    return "{" + tensor("a", "U8", "4", first) + "," + tensor("b", "U8", "4", second) + "}";
  };
  EXPECT_EQ(read_file(file_of(two("0,4", "4,8"), 8)).catalog.tensors().size(), 2u);
  EXPECT_EQ(fault_of(file_of(two("0,4", "3,7"), 7)), FaultKind::overlap);
  EXPECT_EQ(fault_of(file_of(two("0,4", "0,4"), 4)), FaultKind::overlap);
  EXPECT_EQ(fault_of(file_of(two("0,4", "5,9"), 9)), FaultKind::hole);
  EXPECT_EQ(fault_of(file_of(two("1,5", "5,9"), 9)), FaultKind::hole);
  EXPECT_EQ(fault_of(file_of(two("0,4", "4,8"), 9)), FaultKind::hole);
  EXPECT_EQ(fault_of(file_of(two("0,4", "4,8"), 7)), FaultKind::short_file);
  EXPECT_EQ(
      fault_of(file_of("{" + tensor("a", "U8", "4", "18446744073709551612,18446744073709551615") + "}", 4)),
      FaultKind::shape);
  EXPECT_EQ(fault_of(file_of("{" + tensor("a", "U8", "4", "4,0") + "}", 4)), FaultKind::out_of_bounds);
}

TEST_F(Safetensors, ShapesMustBeThoseOfTheBytes) {
  for (const char* shape :
       {"3", "5", "2,2,2", "", "4611686018427387904,4", "9223372036854775807,9223372036854775807",
        "0,9223372036854775807,9223372036854775807", "0"})
    EXPECT_EQ(fault_of(file_of("{" + tensor("a", "U8", shape, "0,4") + "}", 4)), FaultKind::shape) << shape;
  EXPECT_EQ(fault_of(file_of("{" + tensor("a", "F6_E2M3", "4", "0,3") + "}", 3)), FaultKind::dtype);
  EXPECT_EQ(fault_of(file_of("{" + tensor("a", "Q9", "4", "0,4") + "}", 4)), FaultKind::dtype);
}

TEST_F(Safetensors, OtherNamesThatMetadataRecordsAreTensorsOfTheSameBytes) {
  const auto contents = read_file(file_of(
      R"({"__metadata__":{"z":"a","pt":"a","b":"a","format":"pt","a":"b","c":"none","author":"me"},)" +
          tensor("b", "U8", "2", "4,6") + "," + tensor("a", "U8", "2,2", "0,4") + "}",
      6));
  const Catalog& catalog = contents.catalog;
  ASSERT_EQ(catalog.tensors().size(), 4u);
  const auto chunk = [&](std::size_t i) { return catalog.chunks(catalog.tensors()[i])[0]; };
  EXPECT_EQ(catalog.name(catalog.tensors()[2]), "pt");
  EXPECT_EQ(catalog.name(catalog.tensors()[3]), "z");
  for (const std::size_t i : {2u, 3u}) {
    EXPECT_EQ(chunk(i).byte_offset, chunk(1).byte_offset);
    EXPECT_EQ(catalog.byte_count(catalog.tensors()[i]), 4u);
    EXPECT_EQ(catalog.shape(catalog.tensors()[i]).size(), 2u);
  }
}

TEST_F(Safetensors, OtherNamesOfTensorsWithManyDimensionsMayNotTakeMoreThanTheHeader) {
  std::string names, ones = "1";
  for (int i = 0; i < 1000; ++i) names += ",\"x" + std::to_string(i) + "\":\"a\"", ones += ",1";
  const std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"" + names + "}," + tensor("a", "U8", ones, "0,1") + "}";
  EXPECT_TRUE(holds(refusal(file_of(header, 1)), "shared values"));
}

TEST_F(Safetensors, EachShardMayRecordTheOtherNamesOfAll) {
  const std::string said = R"({"__metadata__":{"format":"pt","x":"b"},)";
  dir_.write("m-1.safetensors", file_of(said + tensor("a", "U8", "4", "0,4") + "}", 4));
  dir_.write("m-2.safetensors", file_of(said + tensor("b", "U8", "2", "0,2") + "}", 2));
  dir_.write("m.index.json",
             R"({"metadata": {"x": "b"}, "weight_map": {"b": "m-2.safetensors", "a": "m-1.safetensors"}})");
  const auto contents = read({dir_.path(), "m.index.json"});
  ASSERT_EQ(contents.catalog.tensors().size(), 3u);
  EXPECT_EQ(contents.catalog.name(contents.catalog.tensors()[2]), "x");
  EXPECT_EQ(contents.catalog.chunks()[2].file, 1u);
  dir_.write("m-1.safetensors",
             file_of(R"({"__metadata__":{"x":"a"},)" + tensor("a", "U8", "4", "0,4") + "}", 4));
  EXPECT_EQ(fault_of(Site{dir_.path(), "m.index.json"}), FaultKind::storage_data);
}

// --- an index ---------------------------------------------------------------------------------------------

TEST_F(Safetensors, TheIndexDecides) {
  dir_.write("m-1.safetensors", file_of("{" + tensor("a", "U8", "4", "0,4") + "}", 4));
  dir_.write("sub/m-2.safetensors",
             file_of("{" + tensor("b", "U8", "2", "0,2") + "," + tensor("c", "U8", "1", "2,3") + "}", 3));
  dir_.write("m-9.safetensors", "stale");
  dir_.write("m.index.json",
             R"({"metadata": {"total_size": 6, "x": {"weight_map": [1, null]}},
                 "weight_map": {"b": "sub/m-2.safetensors", "a": "m-1.safetensors"}, "more": [{"a": "b"}]})");
  const auto contents = read({dir_.path(), "m.index.json"});
  ASSERT_EQ(contents.catalog.tensors().size(), 2u);
  EXPECT_EQ(contents.catalog.name(contents.catalog.tensors()[0]), "a");
  EXPECT_EQ(contents.catalog.name(contents.catalog.tensors()[1]), "b");
  ASSERT_EQ(contents.notes.size(), 1u);
  EXPECT_TRUE(holds(contents.notes[0], "'c'"));
}

TEST_F(Safetensors, AnIndexThatItsShardsContradictIsRefused) {
  const Site site{dir_.path(), "m.index.json"};
  const std::string a = file_of("{" + tensor("a", "U8", "4", "0,4") + "}", 4);
  dir_.write("1.safetensors", a), dir_.write("2.safetensors", a);
  dir_.write("m.index.json", R"({"weight_map": {"a": "1.safetensors", "b": "1.safetensors"}})");
  EXPECT_EQ(fault_of(site), FaultKind::storage_data);
  dir_.write("m.index.json", R"({"weight_map": {"a": "3.safetensors"}})");
  EXPECT_EQ(fault_of(site), FaultKind::missing_file);
  dir_.write("3.safetensors",
             file_of("{" + tensor("b", "U8", "4", "0,4") + "," + tensor("a", "U8", "1", "4,5") + "}", 5));
  dir_.write("m.index.json", R"({"weight_map": {"a": "1.safetensors", "b": "3.safetensors"}})");
  EXPECT_EQ(fault_of(site), FaultKind::overlap);  // in two shards
  dir_.write("1.safetensors", a.substr(0, a.size() - 1));
  dir_.write("m.index.json", R"({"weight_map": {"a": "1.safetensors"}})");
  EXPECT_EQ(fault_of(site), FaultKind::short_file);
  dir_.write("1.safetensors", "what");
  EXPECT_EQ(fault_of(site), FaultKind::header);
}

TEST_F(Safetensors, WhatIsNoIndexIsRefused) {
  for (const char* index :
       {"", "{", "[]", "1", "{}", R"({"weight_map": 1})", R"({"weight_map": ["a"]})",
        R"({"weight_map": {"a": 1}})", R"({"weight_map": {"a": ["x"]}})", R"({"weight_map": {"a": {}}})",
        R"({"weight_map": {}, "weight_map": {}})", R"({"weight_map": {}})"}) {
    EXPECT_TRUE(holds(index_refusal(index), "index in m.index.json at byte 0")) << index;
  }
  EXPECT_TRUE(holds(index_refusal(R"({"weight_map": {"a": "x", "a": "y"}})"), "'a' comes twice"));
  for (const char* path : {"../x", "/x", "a/../x", "", ".", "a//b", "a/./b", "x\\u0000"})
    EXPECT_TRUE(holds(index_refusal("{\"weight_map\": {\"a\": \""s + path + "\"}}"), "no plain name"))
        << path;
}

// --- Hugging Face's shards of boxes -----------------------------------------------------------------------

std::string boxed(const std::string& tensors, const std::string& offsets, std::size_t bytes) {
  return file_of(R"({"__metadata__":{"format":"pt","DCP_SHARDING_INFO":")" + offsets + "\"}," + tensors + "}",
                 bytes);
}
std::string offsets_of(const std::string& name, const std::string& offsets) {
  return R"({\")" + name + R"(\": {\"saved_offsets\": [)" + offsets + "]}}";
}

TEST_F(Safetensors, BoxesMakeUpTheirTensors) {
  dir_.write("shard-00001-model-00001-of-00001.safetensors",
             boxed(tensor("w", "U8", "2,3", "0,6"), offsets_of("w", "0, 0"), 6));
  dir_.write("shard-00002-model-00001-of-00001.safetensors",
             boxed(tensor("w", "U8", "1,3", "0,3"), offsets_of("w", "2, 0"), 3));
  const Site site{dir_.path(), "shard-00001-model-00001-of-00001.safetensors", true};
  const auto contents = read(site);
  ASSERT_EQ(contents.catalog.tensors().size(), 1u);
  EXPECT_EQ(contents.catalog.shape(contents.catalog.tensors()[0])[0], 3);
  ASSERT_EQ(contents.catalog.chunks().size(), 2u);
  EXPECT_EQ(contents.catalog.box(contents.catalog.tensors()[0], contents.catalog.chunks()[1]).offsets[0], 2);

  const auto second = [&](const std::string& content) {
    dir_.write("shard-00002-model-00001-of-00001.safetensors", content);
  };
  second(boxed(tensor("w", "U8", "1,3", "0,3"), offsets_of("w", "1, 0"), 3));
  EXPECT_EQ(fault_of(site), FaultKind::overlap);
  second(boxed(tensor("w", "U8", "1,3", "0,3"), offsets_of("w", "4, 0"), 3));
  EXPECT_EQ(fault_of(site), FaultKind::hole);
  second(boxed(tensor("w", "I8", "1,3", "0,3"), offsets_of("w", "2, 0"), 3));
  EXPECT_EQ(fault_of(site), FaultKind::dtype);
  second(boxed(tensor("w", "U8", "1,3", "0,3"), offsets_of("w", "2"), 3));
  EXPECT_EQ(fault_of(site), FaultKind::dtype);
  second(boxed(tensor("w", "U8", "1,3", "0,3"), "[]", 3));
  EXPECT_TRUE(holds(failure_of([&] { read(site); }).message(), "DCP_SHARDING_INFO"));
  second(boxed(tensor("w", "U8", "1,3", "0,3"), offsets_of("w", "9223372036854775807, 0"), 3));
  EXPECT_EQ(failure_of([&] { read(site); }).kind(), ErrorKind::corrupt);
}

// --- what is written --------------------------------------------------------------------------------------

TEST_F(Safetensors, AHeaderIsWrittenAsTheLibraryWritesIt) {
  const std::vector<std::int64_t> shape{3, 2}, none;
  const std::vector<PlacedTensor> tensors{{"b\"\n\x01é", DType::float32, shape, 0, 24},
                                          {"a", DType::float4_e2m1fn_x2, shape, 24, 30},
                                          {"s", DType::uint8, none, 30, 31}};
  const std::string text = encode_header(tensors, {{"format", "pt"}});
  EXPECT_EQ(text.size() % 8, 0u);
  EXPECT_EQ(text.substr(8),
            std::string(R"({"__metadata__":{"format":"pt"},"b\"\n\u0001é":{"dtype":"F32","shape":[3,2],)"
                        R"("data_offsets":[0,24]},"a":{"dtype":"F4","shape":[3,4],"data_offsets":[24,30]},)"
                        R"("s":{"dtype":"U8","shape":[],"data_offsets":[30,31]}})") +
                std::string(text.size() - 8 - (text.find_last_of('}') - 7), ' '));
  dir_.write("x.safetensors", text + std::string(31, 'x'));
  EXPECT_EQ(read({dir_.path(), "x.safetensors"}).catalog.tensors().size(), 3u);
}

TEST_F(Safetensors, NamesThatAreNotUtf8CannotBeWritten) {
  const std::vector<PlacedTensor> tensors{{"\xff", DType::uint8, {}, 0, 1}};
  EXPECT_EQ(failure_of([&] { encode_header(tensors, {}); }).kind(), ErrorKind::unsupported);
}

TEST_F(Safetensors, AnIndexIsSortedAndAscii) {
  EXPECT_EQ(
      encode_index({{"é", "b"}, {"a\x7f", "c"}}, {}, 7),
      "{\n  \"metadata\": {\n    \"total_size\": 7\n  },\n  \"weight_map\": {\n    \"a\\u007f\": \"c\",\n"
      "    \"\\u00e9\": \"b\"\n  }\n}\n");
}

using Files = std::vector<std::vector<std::uint32_t>>;

TEST(SafetensorsSharding, AFileIsClosedByTheFirstTensorThatDoesNotFit) {
  const std::vector<std::uint64_t> bytes{4, 4, 3, 0, 8, 1};
  EXPECT_EQ(split(bytes, 8), (Files{{0, 1}, {2, 3}, {4}, {5}}));
  EXPECT_EQ(split(bytes, 1000), (Files{{0, 1, 2, 3, 4, 5}}));
  EXPECT_EQ(split({}, 8), (Files{{}}));
}

TEST(SafetensorsSharding, ALongerTensorHasItsOwnFileInFrontOfTheOneThatIsOpen) {
  EXPECT_EQ(split(std::vector<std::uint64_t>{9, 4, 9, 4, 9}, 8), (Files{{0}, {2}, {4}, {1, 3}}));
  EXPECT_EQ(split(std::vector<std::uint64_t>{9, 9}, 8), (Files{{0}, {1}}));
}

TEST(SafetensorsSharding, NamesOfFilesAreTold) {
  EXPECT_EQ(file_name(0, 1), "model.safetensors");
  EXPECT_EQ(file_name(1, 12), "model-00002-of-00012.safetensors");
  EXPECT_TRUE(is_file_name(file_name(0, 1)) && is_file_name(file_name(4, 5)));
  for (const char* name :
       {"model-00001-of-0000x.safetensors", "model-1-of-2.safetensors", "Model.safetensors", ""})
    EXPECT_FALSE(is_file_name(name)) << name;
}

TEST(SafetensorsSharding, DataOfFilesIsApartAndAlignedAsInTheFiles) {
  const std::vector<DataFile> files{{"a", 104, 2}, {"b", 96, 0}, {"c", 5000, 1}};
  std::vector<RecordContent> contents(3);
  contents[0].bytes = 10, contents[1].bytes = 6, contents[2].bytes = 7;
  const FilesLayout layout(files, contents, 4096);
  ASSERT_EQ(layout.record_count(), 3u);
  for (std::size_t i = 0; i < files.size(); ++i)
    EXPECT_EQ(layout.data()[i].begin % 4096, files[i].header_bytes % 4096) << i;
  EXPECT_EQ(layout.region().begin, layout.payload(0).begin);
  EXPECT_EQ(layout.payload(1).begin, layout.payload(0).end);
  EXPECT_EQ(layout.data()[0].size(), 16u);
  EXPECT_EQ(layout.data()[1].size(), 0u);
  EXPECT_EQ(layout.extent(1).end, layout.extent(2).begin);  // the zeros between are its back
  EXPECT_EQ(layout.region().end, layout.payload(2).end);
  EXPECT_EQ(layout.record_at(layout.payload(2).begin), 2u);
  EXPECT_EQ(FilesLayout({}, {}, 4096).region().size(), 0u);
}

}  // namespace
}  // namespace cairn::safetensors
