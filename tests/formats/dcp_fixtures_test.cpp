// SPDX-License-Identifier: BSD-3-Clause
// Every .metadata of tests/data/metadata against expectations.json (see make_metadata.py there).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cairn/error.hpp"
#include "formats/dcp/metadata_decoder.hpp"

namespace cairn::dcp {
namespace {

using nlohmann::json;

const std::string kFolder = std::string(CAIRN_TEST_DATA) + "/metadata/";

std::vector<std::byte> bytes_of(const std::string& name) {
  std::ifstream in(kFolder + name, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

json expectations() {
  std::ifstream in(kFolder + "expectations.json");
  return json::parse(in);
}

std::vector<std::int64_t> list(std::span<const std::int64_t> values) {
  return {values.begin(), values.end()};
}

json item_json(const Catalog& catalog, const StoredItem& item) {
  return {{"file", catalog.files()[item.file]},
          {"byte_offset", item.byte_offset},
          {"byte_length", item.byte_length}};
}

json chunk_json(const Catalog& catalog, const TensorInfo& tensor, const StoredItem& chunk) {
  json out = item_json(catalog, chunk);
  const BoxView box = catalog.box(tensor, chunk);
  out["offsets"] = list(box.offsets);
  out["sizes"] = list(box.sizes);
  return out;
}

json tensors_json(const Catalog& catalog) {
  json out = json::array();
  for (const TensorInfo& tensor : catalog.tensors()) {
    json chunks = json::array();
    for (const StoredItem& chunk : catalog.chunks(tensor))
      chunks.push_back(chunk_json(catalog, tensor, chunk));
    out.push_back({{"name", std::string(catalog.name(tensor))},
                   {"dtype", std::string(info(tensor.dtype).name)},
                   {"shape", list(catalog.shape(tensor))},
                   {"chunks", chunks}});
  }
  return out;
}

json objects_json(const Catalog& catalog) {
  json out = json::array();
  for (const ObjectInfo& object : catalog.objects()) {
    json entry = item_json(catalog, object.item);
    entry["name"] = std::string(catalog.name(object));
    out.push_back(entry);
  }
  return out;
}

json path_json(const Catalog& catalog, const Entry& entry) {
  json steps = json::array();
  for (const PathStep& step : catalog.path(entry)) {
    if (step.is_position) {
      steps.push_back(step.value);
    } else {
      steps.push_back(std::string(catalog.text(static_cast<StringId>(step.value))));
    }
  }
  return steps;
}

void expect_decodes(const std::string& name, const json& expected) {
  FaultList faults;
  const Catalog catalog = decode_metadata(bytes_of(name), name, faults).catalog;
  EXPECT_TRUE(faults.empty());
  EXPECT_EQ(tensors_json(catalog), expected["tensors"]);
  EXPECT_EQ(objects_json(catalog), expected["objects"]);
  for (const Entry& entry : catalog.entries()) {
    ASSERT_EQ(entry.has_path, !expected["paths"].is_null());
    if (entry.has_path) {
      EXPECT_EQ(path_json(catalog, entry), expected["paths"][std::string(catalog.name(entry))]);
    }
  }
}

void expect_refused(const std::string& name, const json& expected) {
  FaultList faults;
  try {
    decode_metadata(bytes_of(name), name, faults);
    faults.throw_if_any(name);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    const json kind = std::string(to_string(error.kind()));
    EXPECT_NE(std::find(expected["error"].begin(), expected["error"].end(), kind), expected["error"].end())
        << error.what();
    if (expected.contains("says")) {
      EXPECT_NE(std::string(error.what()).find(expected["says"].get<std::string>()), std::string::npos)
          << error.what();
    }
  }
}

TEST(MetadataFixtures, EveryVersionDecodesToItsTensorsAndEveryAttackIsRefused) {
  const json all = expectations();
  for (const auto& [name, expected] : all.items()) {
    SCOPED_TRACE(name);
    if (expected.contains("error")) {
      expect_refused(name, expected);
    } else {
      EXPECT_NO_THROW(expect_decodes(name, expected));
    }
  }
}

}  // namespace
}  // namespace cairn::dcp
