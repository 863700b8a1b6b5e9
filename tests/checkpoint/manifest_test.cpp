// SPDX-License-Identifier: BSD-3-Clause
// Directories that a save made, altered where only the manifest can tell.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "cairn/checkpoint.hpp"
#include "cairn/save.hpp"
#include "temp_dir.hpp"

namespace cairn {
namespace {

constexpr std::size_t kTimeField = 10;  // of a local zip header: nothing else depends on it

class Manifest : public testing::Test {
 protected:
  Manifest() { save_as("c"); }

  void save_as(const std::string& name, bool manifest = true) {
    LiveState state(0);
    state.add_tensor("large", TensorLayout::replicated({200'000}, 1),
                     TensorView::contiguous(DType::float32, {200'000}, values_.data()));
    state.add_tensor("small", TensorLayout::replicated({3}, 1),
                     TensorView::contiguous(DType::float32, {3}, values_.data()));
    state.add_object("raw", Object::Stored{{std::byte{1}, std::byte{2}, std::byte{3}}});
    SaveOptions options;
    options.sync = false;
    options.overwrite = true;
    options.manifest = manifest;
    save(*comm_, posix_file_system(), state, dir_ / name, options);
  }

  void edit(const std::string& file, const std::function<void(std::string&)>& change) const {
    std::string bytes = dir_.read("c/" + file);
    change(bytes);
    dir_.write("c/" + file, bytes);
  }

  VerifyReport verified(bool strict = false) {
    VerifyOptions options;
    options.path = dir_ / "c";
    options.strict = strict;
    options.threads = 2;
    return verify(*comm_, posix_file_system(), options);
  }

  void expect_fault(FaultKind kind, const std::string& name, const std::string& file,
                    const std::string& text) {
    const VerifyReport report = verified();
    ASSERT_EQ(report.faults.count(), 1u);
    const Fault& fault = report.faults.faults()[0];
    EXPECT_EQ(fault.kind, kind);
    EXPECT_EQ(fault.name, name);
    EXPECT_EQ(fault.file, file);
    EXPECT_NE(fault.message.find(text), std::string::npos) << fault.message;
  }

  void expect_warning(const std::string& text) {
    const VerifyReport report = verified();
    EXPECT_TRUE(report.faults.empty());
    ASSERT_EQ(report.warnings.size(), 1u);
    EXPECT_NE(report.warnings[0].find(text), std::string::npos) << report.warnings[0];
  }

  std::size_t item_begin(const std::string& shard, std::size_t number) const {
    std::size_t at = shard.find("PK\3\4");
    for (; number > 0; --number) at = shard.find("PK\3\4", shard.find("PK\5\6", at));
    return at;
  }

  const TempDir dir_;
  const std::unique_ptr<Communicator> comm_ = solo_communicator();
  std::vector<float> values_ = std::vector<float>(200'000, 1.5f);
};

TEST_F(Manifest, AgreesWithWhatWasSavedAndCoversRawObjects) {
  const VerifyReport report = verified(true);
  EXPECT_TRUE(report.faults.empty()) << report.faults.faults()[0].message;
  EXPECT_TRUE(report.warnings.empty());
  EXPECT_EQ(report.unchecked_items, 0u);
  save_as("c", false);
  EXPECT_EQ(verified().unchecked_items, 1u);
}

TEST_F(Manifest, TellsOfAnAlteredByteInASmallItem) {
  edit("__0_0.distcp", [&](std::string& bytes) { bytes[item_begin(bytes, 1) + kTimeField] ^= 1; });
  expect_fault(FaultKind::crc, "small", "__0_0.distcp", "the manifest says");
}

TEST_F(Manifest, TellsOfAnAlteredByteInALargeItem) {
  edit("__0_0.distcp", [&](std::string& bytes) { bytes[item_begin(bytes, 0) + kTimeField] ^= 1; });
  expect_fault(FaultKind::crc, "large", "__0_0.distcp", "the manifest says");
}

TEST_F(Manifest, TellsOfAnAlteredObjectWithoutCrcs) {
  edit("__0_0.distcp", [](std::string& bytes) { bytes[1] = 9; });
  expect_fault(FaultKind::crc, "raw", "__0_0.distcp", "the manifest says");
}

TEST_F(Manifest, TellsOfAlteredMetadata) {
  const std::string part = std::filesystem::path(dir_.path()).filename();  // of the checkpoint_id
  edit(".metadata", [&](std::string& bytes) { bytes.at(bytes.find(part) + 1) ^= 1; });
  expect_fault(FaultKind::crc, "", ".metadata", "SHA-256");
}

TEST_F(Manifest, ThatIsMissingIsMissed) {
  std::filesystem::remove(dir_ / "c/cairn.manifest");
  expect_warning("the metadata announces it, and it is missing");
}

TEST_F(Manifest, OfAnotherSaveIsNotUsed) {
  save_as("other");
  dir_.write("c/cairn.manifest", dir_.read("other/cairn.manifest"));
  expect_warning("it belongs to another save");
}

TEST_F(Manifest, ThatNobodyAnnouncedIsNotUsed) {
  const std::string manifest = dir_.read("c/cairn.manifest");
  save_as("c", false);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "c/cairn.manifest"));
  dir_.write("c/cairn.manifest", manifest);
  expect_warning("the metadata does not know of it");
}

TEST_F(Manifest, ThatIsDamagedIsAFault) {
  edit("cairn.manifest", [](std::string& bytes) { bytes.resize(bytes.size() / 2); });
  expect_fault(FaultKind::header, "", "cairn.manifest", "no manifest");
}

TEST_F(Manifest, ThatLacksAnItemIsAFault) {
  edit("cairn.manifest", [](std::string& bytes) {
    const std::size_t begin = bytes.find("[[0, 3, ");
    bytes.erase(begin + 1, bytes.find("], ", begin) + 3 - begin - 1);
  });
  expect_fault(FaultKind::storage_data, "", "__0_0.distcp", "the manifest does not know it");
}

TEST_F(Manifest, OfALaterVersionIsNotUsed) {
  edit("cairn.manifest", [](std::string& bytes) { bytes[bytes.find(": 1") + 2] = '2'; });
  expect_warning("a manifest of version 2");
}

}  // namespace
}  // namespace cairn
