// SPDX-License-Identifier: BSD-3-Clause
#include "formats/layouts.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "failure_of.hpp"
#include "storage/fault.hpp"
#include "temp_dir.hpp"

namespace cairn {
namespace {

class Layouts : public testing::Test {
 protected:
  Error refusal(const std::string& path) {
    return failure_of([&] { require_dcp_directory(posix_file_system(), path); });
  }
  /// The directory itself is refused as unsupported, in a sentence with all of `words`.
  void expect_refused(std::initializer_list<std::string> words) { expect_refused(dir_.path(), words); }
  void expect_refused(const std::string& path, std::initializer_list<std::string> words) {
    const auto error = refusal(path);
    EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
    EXPECT_TRUE(contains(error, path)) << error.what();
    for (const auto& word : words) EXPECT_TRUE(contains(error, word)) << word << ": " << error.what();
  }

  TempDir dir_;
};

TEST_F(Layouts, ADirectoryWithMetadataIsRead) {
  dir_.write(".metadata", "x");
  EXPECT_EQ(require_dcp_directory(posix_file_system(), dir_.path()), dir_.path());
  EXPECT_EQ(require_dcp_directory(posix_file_system(), dir_.path() + "/"), dir_.path() + "/");
}

TEST_F(Layouts, MetadataBehindASymlinkIsRead) {
  dir_.write("blobs/1", "x");
  std::filesystem::create_symlink("blobs/1", dir_ / ".metadata");
  EXPECT_EQ(require_dcp_directory(posix_file_system(), dir_.path()), dir_.path());
}

TEST_F(Layouts, NothingThereIsNotFound) {
  EXPECT_EQ(refusal(dir_ / "absent").kind(), ErrorKind::not_found);
  EXPECT_EQ(refusal("").kind(), ErrorKind::not_found);
  std::filesystem::create_symlink("absent", dir_ / "dangling");
  EXPECT_EQ(refusal(dir_ / "dangling").kind(), ErrorKind::not_found);
}

TEST_F(Layouts, AnEmptyDirectoryIsSaidToBeEmpty) {
  const auto error = refusal(dir_.path());
  EXPECT_EQ(error.kind(), ErrorKind::not_found);
  EXPECT_TRUE(contains(error, "empty directory"));
}

TEST_F(Layouts, AFifoIsRefusedWithoutWaiting) {
  ASSERT_EQ(mkfifo((dir_ / "fifo").c_str(), 0600), 0);
  expect_refused(dir_ / "fifo", {"neither"});
}

TEST_F(Layouts, AMetadataThatIsADirectoryIsNoMetadata) {
  std::filesystem::create_directories(dir_ / ".metadata");
  EXPECT_EQ(refusal(dir_.path()).kind(), ErrorKind::not_found);
}

TEST_F(Layouts, FoldersWhoseExtraFilesWouldBeLost) {
  dir_.write("lightning/.metadata", "x"), dir_.write("lightning/meta.pt", "x");
  expect_refused(dir_ / "lightning", {"Lightning", "meta.pt"});
  dir_.write("megatron/.metadata", "x"), dir_.write("megatron/common.pt", "x");
  expect_refused(dir_ / "megatron", {"Megatron", "common.pt"});
  dir_.write("bare/.metadata", "x"), dir_.write("bare/metadata.json", R"({"sharded_backend": "torch_dist"})");
  expect_refused(dir_ / "bare", {"Megatron"});
  dir_.write("dcp/.metadata", "x"), dir_.write("dcp/metadata.json", R"({"note": "my own"})");
  EXPECT_EQ(require_dcp_directory(posix_file_system(), dir_ / "dcp"), dir_ / "dcp");
}

TEST_F(Layouts, ByteCheckpointIsToldByItsClass) {
  dir_.write(".metadata", "\x80\x04\x95\x10 bytecheckpoint.planner.metadata Metadata");
  expect_refused({"ByteCheckpoint"});
}

TEST_F(Layouts, AnUnfinishedSaveAndLostMetadataDiffer) {
  dir_.write("unfinished/.metadata.tmp", "x"), dir_.write("unfinished/__0_0.distcp", "x");
  expect_refused(dir_ / "unfinished", {"did not finish", ".metadata.tmp"});
  dir_.write("lost/__0_0.distcp", "x");
  expect_refused(dir_ / "lost", {"no .metadata", "__0_0.distcp"});
}

TEST_F(Layouts, PerRankMetadata) {
  dir_.write("__0.metadata", "x"), dir_.write("__0_0.distcp", "x");
  expect_refused({"__0.metadata", "use_collectives"});
}

TEST_F(Layouts, ATrainingTreeNamesTheModelOfItsLatestIteration) {
  dir_.write("checkpoints/latest_checkpoint.txt", "iter_000000025\n");
  for (const char* part : {"model", "optim_net", "scheduler_net", "trainer"}) {
    dir_.write(std::string("checkpoints/iter_000000025/") + part + "/.metadata", "x");
  }
  const auto iteration = dir_ / "checkpoints/iter_000000025";
  expect_refused({"training tree; pass " + iteration + "/model"});
  expect_refused(dir_ / "checkpoints", {"training tree; pass " + iteration + "/model"});
  expect_refused(iteration, {"one iteration of a training tree", "pass " + iteration + "/model"});
}

TEST_F(Layouts, ATrainingTreesBadPointerIsNotFollowed) {
  dir_.write("checkpoints/iter_000000025/model/.metadata", "x");
  for (const char* name : {"../checkpoints/iter_000000025", "", "..", "/"}) {
    dir_.write("checkpoints/latest_checkpoint.txt", name);
    expect_refused({"names no directory"});
  }
  dir_.write("checkpoints/latest_checkpoint.txt", "iter_000000050");
  expect_refused({"iter_000000050", "no model/.metadata"});
}

TEST_F(Layouts, AnAccelerateParentNamesModelAndOptimizer) {
  dir_.write("pytorch_model_fsdp_0/.metadata", "x"), dir_.write("optimizer_0/.metadata", "x");
  dir_.write("random_states_0.pkl", "x");
  expect_refused({"Accelerate", "pass " + (dir_ / "pytorch_model_fsdp_0"), dir_ / "optimizer_0"});
}

TEST_F(Layouts, AParentOfOneNamesIt) {
  dir_.write("a/step-1000/.metadata", "x");
  expect_refused({"pass " + (dir_ / "a/step-1000")});
}

TEST_F(Layouts, ThreeLevelsBelowIsNotSearched) {
  dir_.write("a/b/c/.metadata", "x");
  EXPECT_EQ(refusal(dir_.path()).kind(), ErrorKind::not_found);
}

TEST_F(Layouts, AParentOfSeveralListsThemUpToTen) {
  dir_.write("step-10/.metadata", "x"), dir_.write("step-20/.metadata", "x");
  expect_refused({"pass one of", dir_ / "step-10, ", dir_ / "step-20"});
  for (char letter = 'a'; letter <= 'z'; ++letter) dir_.write(std::string(1, letter) + "/.metadata", "x");
  const auto error = refusal(dir_.path());
  EXPECT_TRUE(contains(error, dir_ / "j")) << error.what();
  EXPECT_FALSE(contains(error, dir_ / "k")) << error.what();
  EXPECT_TRUE(contains(error, "…"));
}

TEST_F(Layouts, LookAlikesAreNamed) {
  dir_.write("hf/shard-00001-model-00001-of-00004.safetensors", "x");
  expect_refused(dir_ / "hf", {"Hugging Face's DCP"});
  dir_.write("hf2/sharded/shard-00002-model-00001-of-00004.safetensors", "x");
  expect_refused(dir_ / "hf2", {"Hugging Face's DCP"});
  dir_.write("tc/metadata.pkl", "x"), dir_.write("tc/model_0.pt", "x");
  expect_refused(dir_ / "tc", {"torch_checkpointing"});
  dir_.write("ds/zero_pp_rank_0_mp_rank_00_optim_states.pt", "x");
  expect_refused(dir_ / "ds", {"DeepSpeed"});
  dir_.write("st/model.safetensors", "x");
  expect_refused(dir_ / "st", {"safetensors"});
  dir_.write("pt/rank_0.pt", "x");
  expect_refused(dir_ / "pt", {"torch files", "rank_0.pt"});
}

TEST_F(Layouts, FilesAreToldByTheirContent) {
  const std::string zip = std::string("PK\x03\x04", 4) + std::string(22, '\0') +
                          std::string("\x10\0\0\0", 4) + "archive/data.pkl" + "…";
  dir_.write("a", zip);
  expect_refused(dir_ / "a", {"a torch file"});
  dir_.write("a.pth", std::string("PK\x03\x04", 4) + std::string(60, '\0'));
  expect_refused(dir_ / "a.pth", {"a zip file"});
  dir_.write("b", std::string("\x02\0\0\0\0\0\0\0{}", 10));
  expect_refused(dir_ / "b", {"a safetensors file"});
  dir_.write("c", std::string("\x89HDF\r\n\x1a\n", 8));
  expect_refused(dir_ / "c", {"an HDF5 file"});
  dir_.write("d", "");
  expect_refused(dir_ / "d", {"an empty file"});
  dir_.write("e.safetensors", "what");
  expect_refused(dir_ / "e.safetensors", {"no checkpoint that Cairn knows"});
}

TEST_F(Layouts, AFileOfADcpDirectoryNamesTheDirectory) {
  dir_.write(".metadata", "x"), dir_.write("__0_0.distcp", "x");
  expect_refused(dir_ / "__0_0.distcp", {"pass " + dir_.path()});
  expect_refused(dir_ / ".metadata", {"pass " + dir_.path()});
}

TEST_F(Layouts, AListingThatFailsIsNotTakenForEmpty) {
  FaultyFileSystem faulty(posix_file_system());
  faulty.inject({.operation = Operation::list, .error_number = EIO});
  const auto error = failure_of([&] { require_dcp_directory(faulty, dir_.path()); });
  EXPECT_EQ(error.kind(), ErrorKind::io) << error.what();
}

TEST_F(Layouts, AChildThatCannotBeLookedIntoIsNamed) {
  dir_.write("closed/x", "x");
  FaultyFileSystem faulty(posix_file_system());
  faulty.inject({.operation = Operation::list, .path_contains = "closed", .error_number = EACCES});
  const auto error = failure_of([&] { require_dcp_directory(faulty, dir_.path()); });
  EXPECT_TRUE(contains(error, dir_ / "closed could not be looked into")) << error.what();
}

}  // namespace
}  // namespace cairn
