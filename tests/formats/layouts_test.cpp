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
  Located located(const std::string& path) { return locate_checkpoint(posix_file_system(), path); }
  std::vector<std::string> parts(const std::string& path) {
    std::vector<std::string> paths;
    for (const auto& part : locate_for_verify(posix_file_system(), path)) paths.push_back(part.path);
    return paths;
  }
  Error refusal(const std::string& path) {
    return failure_of([&] { locate_checkpoint(posix_file_system(), path); });
  }
  /// The directory itself is refused in a sentence with all of `words`.
  void expect_refused(std::initializer_list<std::string> words) { expect_refused(dir_.path(), words); }
  void expect_refused(const std::string& path, std::initializer_list<std::string> words,
                      ErrorKind kind = ErrorKind::unsupported) {
    const auto error = refusal(path);
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_TRUE(contains(error, path)) << error.what();
    for (const auto& word : words) EXPECT_TRUE(contains(error, word)) << word << ": " << error.what();
  }
  void expect_not_found(const std::string& path, std::initializer_list<std::string> words) {
    expect_refused(path, words, ErrorKind::not_found);
  }
  /// Another path is taken, and all of `words` are in the sentence that says so.
  void expect_taken(const std::string& path, const std::string& taken, const std::string& format,
                    std::initializer_list<std::string> words) {
    const auto found = located(path);
    EXPECT_EQ(found.path, taken);
    EXPECT_EQ(found.format, format);
    for (const auto& word : words) EXPECT_NE(found.note.find(word), std::string::npos) << found.note;
    EXPECT_NE(found.note.find(taken), std::string::npos) << found.note;
  }

  TempDir dir_;
};

TEST_F(Layouts, IterationsThatAreComingOrGoingAreNotSeen) {
  dir_.write("a/step-10/.metadata", "x");
  dir_.write("a/.step-20.cairn-removed/.metadata", "x");
  dir_.write("a/.iter_000000030.cairn-part/model/.metadata", "x");
  EXPECT_EQ(parts(dir_ / "a"), std::vector{dir_ / "a/step-10"});
  EXPECT_EQ(located(dir_.path()).path, dir_ / "a/step-10");
}

TEST_F(Layouts, ADirectoryWithMetadataIsRead) {
  dir_.write(".metadata", "x");
  EXPECT_EQ(located(dir_.path()).path, dir_.path());
  EXPECT_EQ(located(dir_.path() + "/").path, dir_.path() + "/");
  EXPECT_EQ(located(dir_.path()).note, "");
  EXPECT_EQ(parts(dir_.path()), std::vector{dir_.path()});
}

TEST_F(Layouts, MetadataBehindASymlinkIsRead) {
  dir_.write("blobs/1", "x");
  std::filesystem::create_symlink("blobs/1", dir_ / ".metadata");
  EXPECT_EQ(located(dir_.path()).path, dir_.path());
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

TEST_F(Layouts, FoldersKeepTheFileThatBelongsToThem) {
  const auto expect_companion = [&](const std::string& name, const std::string& format,
                                    const std::string& companion) {
    const auto found = located(dir_ / name);
    EXPECT_EQ(found.path, dir_ / name);
    EXPECT_EQ(found.format, format);
    EXPECT_EQ(found.companion, companion);
  };
  dir_.write("lightning/.metadata", "x"), dir_.write("lightning/meta.pt", "x");
  expect_companion("lightning", "lightning", "meta.pt");
  EXPECT_EQ(parts(dir_ / "lightning"), (std::vector{dir_ / "lightning", dir_ / "lightning/meta.pt"}));
  dir_.write("megatron/.metadata", "x"), dir_.write("megatron/common.pt", "x");
  dir_.write("megatron/metadata.json", R"({"sharded_backend": "torch_dist"})");
  expect_companion("megatron", "megatron", "common.pt");
  dir_.write("dcp/.metadata", "x"), dir_.write("dcp/metadata.json", R"({"note": "my own"})");
  expect_companion("dcp", "dcp", "");
}

TEST_F(Layouts, MegatronFoldersThatAreNotReadAreToldApart) {
  dir_.write("half/.metadata", "x"), dir_.write("half/metadata.json", R"({"sharded_backend": "torch_dist"})");
  expect_not_found(dir_ / "half", {"Megatron", "common.pt"});
  dir_.write("zarr/common.pt", "x"), dir_.write("zarr/metadata.json", R"({"sharded_backend": "zarr"})");
  expect_refused(dir_ / "zarr", {"Megatron", "'zarr'"});
}

TEST_F(Layouts, MetadataOfSingleRanksIsMetadata) {
  dir_.write("ckpt/__0.metadata", "x"), dir_.write("ckpt/__1.metadata", "x");
  EXPECT_EQ(located(dir_ / "ckpt").path, dir_ / "ckpt");
  expect_taken(dir_.path(), dir_ / "ckpt", "dcp", {});
}

TEST_F(Layouts, AWholeIterationIsAllOfItsComponents) {
  for (const std::string name : {"model", "optim_net", "trainer"})
    dir_.write("iter_7/" + name + "/.metadata", "x");
  dir_.write("iter_7/notes.txt", "x");
  dir_.write("latest_checkpoint.txt", "iter_7");
  for (const auto& path : {dir_.path(), dir_ / "iter_7"}) {
    const auto whole = locate_iteration(posix_file_system(), path);
    EXPECT_EQ(whole.path, dir_ / "iter_7");
    EXPECT_EQ(whole.components, (std::vector<std::string>{"model", "optim_net", "trainer"}));
    EXPECT_EQ(whole.note.empty(), path == dir_ / "iter_7");
  }
  EXPECT_EQ(failure_of([&] { locate_iteration(posix_file_system(), dir_ / "iter_7/model"); }).kind(),
            ErrorKind::not_found);
  dir_.write("iter_7/model/meta.pt", "x");
  EXPECT_EQ(failure_of([&] { locate_iteration(posix_file_system(), dir_.path()); }).kind(),
            ErrorKind::unsupported);
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
  dir_.write("lost/__1.metadata", "x");
  expect_refused(dir_ / "lost", {"__1.metadata", "not __0.metadata"});
  dir_.write("lost/..metadata.cairn-journal", "x");
  expect_refused(dir_ / "lost", {"--resume", "not finished", "..metadata.cairn-journal"});
  dir_.write("begun/.model.safetensors.index.json.cairn-journal", "x");
  expect_refused(dir_ / "begun", {"--resume", "not finished"});
}

TEST_F(Layouts, ATrainingTreeStandsForItsLatestIteration) {
  dir_.write("checkpoints/iter_000000025/notes.txt", "x");
  std::filesystem::create_directories(dir_ / "checkpoints/iter_000000025/logs");
  for (const char* part : {"model", "optim_net", "scheduler_net", "trainer", "of_my_own"}) {
    dir_.write(std::string("checkpoints/iter_000000025/") + part + "/.metadata", "x");
  }
  dir_.write("checkpoints/iter_000000050/model/.metadata", "x");
  const auto iteration = dir_ / "checkpoints/iter_000000025";
  const std::vector all{iteration + "/model", iteration + "/of_my_own", iteration + "/optim_net",
                        iteration + "/scheduler_net", iteration + "/trainer"};
  for (const char* text : {"iter_000000025", "iter_000000025\n", "iter_000000025\r\n"}) {
    dir_.write("checkpoints/latest_checkpoint.txt", text);
    expect_taken(dir_.path(), iteration + "/model", "tree", {dir_.path() + " is a training tree"});
    expect_taken(dir_ / "checkpoints", iteration + "/model", "tree", {"a training tree"});
    EXPECT_EQ(parts(dir_.path()), all);
  }
  expect_taken(iteration, iteration + "/model", "tree", {iteration + " is one iteration"});
  EXPECT_EQ(parts(iteration), all);
  const auto parts_found = locate_for_verify(posix_file_system(), iteration);
  EXPECT_NE(parts_found[0].note.find("of_my_own"), std::string::npos);
  EXPECT_EQ(parts_found[1].note, "");
}

TEST_F(Layouts, ATreesBadPointerIsNotFollowed) {
  dir_.write("checkpoints/iter_000000025/model/.metadata", "x");
  for (const char* name : {"../checkpoints/iter_000000025", "", "..", "/", "\n"}) {
    dir_.write("checkpoints/latest_checkpoint.txt", name);
    expect_not_found(dir_.path(),
                     {"names no directory", "pass one of " + (dir_ / "checkpoints/iter_000000025")});
  }
}

TEST_F(Layouts, ATreesStalePointerNamesWhatItPointsToAndTheCandidates) {
  dir_.write("latest_checkpoint.txt", "iter_000000050");
  expect_not_found(dir_.path(), {dir_ / "iter_000000050", "not there", "no other iteration"});
  dir_.write("iter_000000025/model/.metadata", "x");
  expect_not_found(dir_.path(), {"not there", "pass one of " + (dir_ / "iter_000000025")});
  std::filesystem::create_directories(dir_ / "iter_000000050/model");
  expect_not_found(dir_.path(), {"no model/.metadata", "pass one of " + (dir_ / "iter_000000025")});
  EXPECT_THROW(parts(dir_.path()), Error);
}

TEST_F(Layouts, APointerToABareCheckpointIsFollowed) {
  dir_.write("latest_checkpoint.txt", "step-20"), dir_.write("step-20/.metadata", "x");
  dir_.write("step-10/.metadata", "x");
  expect_taken(dir_.path(), dir_ / "step-20", "tree", {});
  EXPECT_EQ(parts(dir_.path()), std::vector{dir_ / "step-20"});
}

TEST_F(Layouts, AStepThatIsACheckpointItselfIsNoTree) {
  dir_.write("step-1000/.metadata", "x"), dir_.write("step-1000/model/.metadata", "x");
  EXPECT_EQ(located(dir_ / "step-1000").note, "");
}

TEST_F(Layouts, AnIterationIsToldByItsNameOrItsParts) {
  for (const char* name : {"iter_7", "step-7"}) {
    dir_.write(std::string(name) + "/model/.metadata", "x"),
        dir_.write(std::string(name) + "/ema/.metadata", "x");
    expect_taken(dir_ / name, dir_ / name + "/model", "tree", {"one iteration"});
  }
  dir_.write("saved/model/.metadata", "x"), dir_.write("saved/optim/.metadata", "x");
  expect_taken(dir_ / "saved", dir_ / "saved/model", "tree", {"one iteration"});
  dir_.write("other/model/.metadata", "x"), dir_.write("other/ema/.metadata", "x");
  expect_not_found(dir_ / "other", {"pass one of"});
}

TEST_F(Layouts, AnIterationWithoutAWholeModelIsNotItsOptimizer) {
  dir_.write("iter_1/optim/.metadata", "x");
  expect_not_found(dir_ / "iter_1", {"no model/", dir_ / "iter_1/optim"});
  dir_.write("iter_2/optim/.metadata", "x"), dir_.write("iter_2/model/__0_0.distcp", "x");
  EXPECT_TRUE(contains(refusal(dir_ / "iter_2"), dir_ / "iter_2/model has shards"));
  EXPECT_THROW(parts(dir_ / "iter_2"), Error);
}

TEST_F(Layouts, AComponentThatLostItsMetadataIsNotPassedOver) {
  dir_.write("iter_1/model/.metadata", "x"), dir_.write("iter_1/optim/__0_0.distcp", "x");
  expect_taken(dir_ / "iter_1", dir_ / "iter_1/model", "tree", {});
  const auto error = failure_of([&] { parts(dir_ / "iter_1"); });
  EXPECT_TRUE(contains(error, dir_ / "iter_1/optim has shards")) << error.what();
}

TEST_F(Layouts, AComponentMayHaveAFileThatBelongsToIt) {
  dir_.write("iter_1/model/.metadata", "x"), dir_.write("iter_1/model/meta.pt", "x");
  EXPECT_EQ(located(dir_ / "iter_1").companion, "meta.pt");
  EXPECT_EQ(located(dir_ / "iter_1").format, "tree");
  dir_.write("parent/only/.metadata", "x"), dir_.write("parent/only/common.pt", "x");
  EXPECT_EQ(located(dir_ / "parent").companion, "common.pt");
}

TEST_F(Layouts, AnAccelerateParentStandsForItsModel) {
  dir_.write("pytorch_model_fsdp_0/.metadata", "x"), dir_.write("optimizer_0/.metadata", "x");
  dir_.write("random_states_0.pkl", "x");
  expect_taken(dir_.path(), dir_ / "pytorch_model_fsdp_0", "accelerate",
               {"Accelerate", "optimizer is in " + (dir_ / "optimizer_0")});
  EXPECT_EQ(parts(dir_.path()), (std::vector{dir_ / "optimizer_0", dir_ / "pytorch_model_fsdp_0"}));
  dir_.write("pytorch_model_fsdp_1/.metadata", "x");
  expect_not_found(dir_.path(), {"several models", dir_ / "pytorch_model_fsdp_1"});
}

TEST_F(Layouts, AnAccelerateParentWithoutAWholeModelIsNotItsOptimizer) {
  dir_.write("pytorch_model_fsdp_0/__0_0.distcp", "x"), dir_.write("optimizer_0/.metadata", "x");
  EXPECT_TRUE(contains(refusal(dir_.path()), "has shards"));
}

TEST_F(Layouts, AParentOfOneStandsForIt) {
  dir_.write("a/step-1000/.metadata", "x"), dir_.write("b/notes.txt", "x");
  expect_taken(dir_.path(), dir_ / "a/step-1000", "dcp", {"one checkpoint below it"});
  EXPECT_EQ(parts(dir_.path()), std::vector{dir_ / "a/step-1000"});
  std::filesystem::create_symlink("step-1000", dir_ / "a/latest");
  EXPECT_EQ(located(dir_.path()).path, dir_ / "a/latest");
  dir_.write("c/__0_0.distcp", "x");
  expect_taken(dir_.path(), dir_ / "a/latest", "dcp", {dir_ / "c has shards but no .metadata"});
  EXPECT_THROW(parts(dir_.path()), Error);
}

TEST_F(Layouts, AParentOfOneStandsForSafetensorsFilesToo) {
  dir_.write("run/checkpoint-500/model.safetensors", "x"), dir_.write("run/checkpoint-500/optimizer.pt", "x");
  expect_taken(dir_ / "run", dir_ / "run/checkpoint-500/model.safetensors", "safetensors",
               {"one checkpoint below it", dir_ / "run/checkpoint-500"});
  EXPECT_EQ(parts(dir_ / "run"), std::vector{dir_ / "run/checkpoint-500/model.safetensors"});
  const std::string box = "shard-00001-model-00001-of-00001.safetensors";
  dir_.write("hf/step-1/sharded/" + box, std::string("\x02\0\0\0\0\0\0\0{}", 10));
  expect_taken(dir_ / "hf", dir_ / "hf/step-1/sharded", "hf_dcp", {"one checkpoint below it"});
  dir_.write("run/checkpoint-1000/model.safetensors.index.json", "x"), dir_.write("run/dcp/.metadata", "x");
  expect_not_found(dir_ / "run", {"pass one of", dir_ / "run/checkpoint-1000, ", dir_ / "run/dcp"});
  EXPECT_EQ(parts(dir_ / "run").size(), 3u);
}

TEST_F(Layouts, ThreeLevelsBelowIsNotSearched) {
  dir_.write("a/b/c/.metadata", "x");
  EXPECT_EQ(refusal(dir_.path()).kind(), ErrorKind::not_found);
}

TEST_F(Layouts, AParentOfSeveralListsThemUpToTenAndIsVerifiedWhole) {
  dir_.write("step-10/.metadata", "x"), dir_.write("step-20/.metadata", "x");
  expect_not_found(dir_.path(), {"pass one of", dir_ / "step-10, ", dir_ / "step-20"});
  for (char letter = 'a'; letter <= 'z'; ++letter) dir_.write(std::string(1, letter) + "/.metadata", "x");
  const auto error = refusal(dir_.path());
  EXPECT_TRUE(contains(error, dir_ / "j")) << error.what();
  EXPECT_FALSE(contains(error, dir_ / "k")) << error.what();
  EXPECT_TRUE(contains(error, "…"));
  EXPECT_EQ(parts(dir_.path()).size(), 28u);
}

TEST_F(Layouts, VerifyTakesTorchFiles) {
  dir_.write("a", std::string("PK\x03\x04", 4) + std::string(22, '\0') + std::string("\x10\0\0\0", 4) +
                      "archive/data.pkl" + "…");
  const auto found = locate_for_verify(posix_file_system(), dir_ / "a");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, Located::Kind::torch_file);
  EXPECT_EQ(found[0].path, dir_ / "a");
  dir_.write("b", std::string("\x89HDF\r\n\x1a\n", 8));
  EXPECT_TRUE(contains(failure_of([&] { parts(dir_ / "b"); }), "an HDF5 file"));
}

TEST_F(Layouts, LookAlikesAreNamed) {
  dir_.write("tc/metadata.pkl", "x"), dir_.write("tc/model_0.pt", "x");
  expect_refused(dir_ / "tc", {"torch_checkpointing"});
  dir_.write("ds/zero_pp_rank_0_mp_rank_00_optim_states.pt", "x");
  expect_refused(dir_ / "ds", {"DeepSpeed"});
  dir_.write("st/a.safetensors", "x"), dir_.write("st/b.safetensors", "x");
  expect_refused(dir_ / "st", {"2 safetensors files", "no index", "pass one", "st/a.safetensors"});
  dir_.write("pt/rank_0.pt", "x");
  expect_refused(dir_ / "pt", {"torch files", "rank_0.pt"});
}

TEST_F(Layouts, FilesAreToldByTheirContent) {
  const auto zip = [](char name_bytes, const std::string& name) {
    return std::string("PK\x03\x04", 4) + std::string(22, '\0') + name_bytes + std::string(3, '\0') + name +
           "…";
  };
  dir_.write("script", zip(9, "ts/data/0"));
  EXPECT_EQ(locate_checkpoint(posix_file_system(), dir_ / "script").kind, Located::Kind::torch_file);
  dir_.write("a", zip(16, "archive/data.pkl"));
  const auto file = locate_checkpoint(posix_file_system(), dir_ / "a");
  EXPECT_EQ(file.kind, Located::Kind::torch_file);
  EXPECT_EQ(file.format, "torch");
  EXPECT_TRUE(contains(failure_of([&] { require_directory(file); }), "a torch file"));
  std::string tar(512, '\0');
  tar.replace(257, 5, "ustar");
  dir_.write("a.tar", tar);
  expect_refused(dir_ / "a.tar", {"a tar archive"});
  dir_.write("a.pth", std::string("PK\x03\x04", 4) + std::string(60, '\0'));
  expect_refused(dir_ / "a.pth", {"a zip file"});
  dir_.write("b", std::string("\x02\0\0\0\0\0\0\0{}", 10));
  EXPECT_EQ(locate_checkpoint(posix_file_system(), dir_ / "b").kind, Located::Kind::safetensors);
  dir_.write("c", std::string("\x89HDF\r\n\x1a\n", 8));
  expect_refused(dir_ / "c", {"an HDF5 file"});
  dir_.write("d", "");
  expect_refused(dir_ / "d", {"an empty file"});
  dir_.write("e.safetensors", "what");
  expect_refused(dir_ / "e.safetensors", {"no checkpoint that Cairn knows"});
}

TEST_F(Layouts, SafetensorsFilesAreTakenByTheirIndexOrAlone) {
  dir_.write("one/model.safetensors", "x");
  EXPECT_EQ(located(dir_ / "one").path, dir_ / "one/model.safetensors");
  EXPECT_EQ(parts(dir_ / "one"), std::vector{dir_ / "one/model.safetensors"});
  EXPECT_TRUE(located(dir_ / "one").note.empty());
  dir_.write("other/x.safetensors", "x");
  expect_taken(dir_ / "other", dir_ / "other/x.safetensors", "safetensors", {"one safetensors file"});
  const std::string map = R"({"weight_map": {"w": "x-1.safetensors"}})";
  dir_.write("many/x-1.safetensors", "x"), dir_.write("many/x-2.safetensors", "x");
  dir_.write("many/x.safetensors.index.json", map);
  dir_.write("many/pytorch_model.bin.index.json", R"({"weight_map": {"w": "x-1.bin"}})");
  EXPECT_EQ(located(dir_ / "many").path, dir_ / "many/x.safetensors.index.json");
  EXPECT_EQ(located(dir_ / "many").format, "safetensors");
  EXPECT_EQ(located(dir_ / "many/x.safetensors.index.json").kind, Located::Kind::safetensors);
  dir_.write("many/y.safetensors.index.json", map);
  expect_refused(dir_ / "many", {"no index that says"});
  dir_.write("many/model.safetensors.index.json", map);
  EXPECT_EQ(located(dir_ / "many").path, dir_ / "many/model.safetensors.index.json");
  EXPECT_TRUE(contains(failure_of([&] { require_directory(located(dir_ / "many")); }), "safetensors"));
  EXPECT_EQ(refusal(dir_ / "many/pytorch_model.bin.index.json").kind(), ErrorKind::unsupported);
}

TEST_F(Layouts, HuggingFacesShardsOfBoxesAreTheirDirectory) {
  const std::string name = "shard-00001-model-00001-of-00004.safetensors";
  dir_.write("hf/" + name, std::string("\x02\0\0\0\0\0\0\0{}", 10));
  EXPECT_EQ(located(dir_ / "hf").kind, Located::Kind::hf_dcp);
  EXPECT_EQ(located(dir_ / "hf").path, dir_ / "hf");
  EXPECT_EQ(site_of(posix_file_system(), located(dir_ / "hf")).name, name);
  dir_.write("below/sharded/" + name, "x");
  EXPECT_EQ(located(dir_ / "below").path, dir_ / "below/sharded");
  EXPECT_EQ(located(dir_ / "below").format, "hf_dcp");
  dir_.write("below/model-00001-of-00001.safetensors", "x");
  EXPECT_EQ(located(dir_ / "below").path, dir_ / "below/model-00001-of-00001.safetensors");
  EXPECT_NE(located(dir_ / "below").note.find("zeros"), std::string::npos);
  EXPECT_NE(located(dir_ / "below").note.find("pass " + (dir_ / "below/sharded")), std::string::npos);
  EXPECT_TRUE(located(dir_ / "below/sharded").note.empty());
  expect_refused(dir_ / ("hf/" + name), {"one file of a directory", "pass " + (dir_ / "hf")});
}

TEST_F(Layouts, AFileOfADcpDirectoryNamesTheDirectory) {
  dir_.write(".metadata", "x"), dir_.write("__0_0.distcp", "x");
  expect_refused(dir_ / "__0_0.distcp", {"pass " + dir_.path()});
  expect_refused(dir_ / ".metadata", {"pass " + dir_.path()});
}

TEST_F(Layouts, AListingThatFailsIsNotTakenForEmpty) {
  FaultyFileSystem faulty(posix_file_system());
  faulty.inject({.operation = Operation::list, .error_number = EIO});
  const auto error = failure_of([&] { locate_checkpoint(faulty, dir_.path()); });
  EXPECT_EQ(error.kind(), ErrorKind::io) << error.what();
}

TEST_F(Layouts, AChildThatCannotBeLookedIntoIsNamed) {
  dir_.write("closed/x", "x");
  FaultyFileSystem faulty(posix_file_system());
  faulty.inject({.operation = Operation::list, .path_contains = "closed", .error_number = EACCES});
  const auto error = failure_of([&] { locate_checkpoint(faulty, dir_.path()); });
  EXPECT_TRUE(contains(error, dir_ / "closed could not be looked into")) << error.what();
  dir_.write("open/.metadata", "x");
  const auto found = locate_checkpoint(faulty, dir_.path());
  EXPECT_NE(found.note.find(dir_ / "closed could not be looked into"), std::string::npos) << found.note;
  EXPECT_EQ(failure_of([&] { locate_for_verify(faulty, dir_.path()); }).kind(), ErrorKind::io);
}

}  // namespace
}  // namespace cairn
