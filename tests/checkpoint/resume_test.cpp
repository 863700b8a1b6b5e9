// SPDX-License-Identifier: BSD-3-Clause
// Runs that are killed, in a process of their own, and continued.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <random>
#include <thread>

#include "cairn/checkpoint.hpp"
#include "cairn/convert.hpp"
#include "checkpoint/journal_file.hpp"
#include "dcp_fixture.hpp"
#include "failure_of.hpp"
#include "storage/atomic_output.hpp"
#include "storage/fault.hpp"

namespace cairn {
namespace {

using Names = std::vector<std::string>;

struct Trial {
  TempDir dir;
  ConsolidateOptions options;
  std::unique_ptr<Communicator> comm = solo_communicator();
  std::uint64_t shard_bytes = 0;  // of safetensors files, which are written then
  int ranks = 0;                  // that a DCP directory is laid out for, which is written then

  Trial() {
    DcpFixture fixture;
    fixture.add({"rows", DType::int32, {900, 1000}, split({900, 1000}, 0, 3)});
    fixture.add({"columns", DType::float32, {700, 800}, split({700, 800}, 1, 2)});
    for (int i = 0; i < 40; ++i)
      fixture.add({"s" + std::to_string(i), DType::uint8, {i}, {{{{0}, {i}}, "__1_0.distcp"}}});
    fixture.add_object("note", "hello");
    fixture.write(dir, "source");
    posix_file_system().make_directories(dir / "out");
    options.source = dir / "source";
    options.destination = dir / "out/m.pth";
    options.threads = 1;
    options.resume = true;
    options.journal_interval_s = 0.001;
  }

  void write_larger_source() {
    DcpFixture fixture;
    fixture.add({"rows", DType::int32, {4000, 1000}, split({4000, 1000}, 0, 3)});
    fixture.add({"columns", DType::int64, {1000, 2000}, split({1000, 2000}, 1, 4)});
    fixture.write(dir, "source");
  }
  void write_safetensors(std::uint64_t most_bytes) {
    options.destination = dir / "out";
    options.objects = ObjectPolicy::drop;
    shard_bytes = most_bytes;
  }
  void write_directory(int wanted_ranks) {
    options.destination = dir / "out";
    ranks = wanted_ranks;
  }
  ConsolidateReport go(FileSystem& files = posix_file_system()) {
    ConvertOptions all;
    static_cast<ConsolidateOptions&>(all) = options;
    if (ranks > 0) {
      all.ranks = ranks;
      return reshard(*comm, files, all);
    }
    if (shard_bytes == 0) return consolidate(*comm, files, options);
    all.to = ConvertTo::safetensors;
    all.max_shard_bytes = shard_bytes;
    return convert(*comm, files, all);
  }
  Names left() const { return posix_file_system().list(dir / "out"); }
  std::string output(const std::string& name = "m.pth") const { return dir.read("out/" + name); }

  /// In a child: whether it was killed at that call.
  bool is_killed(Operation operation, std::uint64_t call) {
    FaultyFileSystem files(posix_file_system());
    InjectedFault fault{.operation = operation, .first_call = call, .call_count = 1};
    fault.kill = true;
    files.inject(fault);
    return has_ended_by_signal(start(files));
  }
  /// In a child: whether it was killed before its end.
  bool is_killed_after(std::chrono::microseconds time) {
    FaultyFileSystem files(posix_file_system());
    const pid_t child = start(files);
    std::this_thread::sleep_for(time);
    kill(child, SIGKILL);
    return has_ended_by_signal(child);
  }

  pid_t start(FaultyFileSystem& files) {
    // so that entries come before the work is done
    InjectedFault slow{.operation = Operation::write, .path_contains = ".cairn-part"};
    slow.delay = std::chrono::milliseconds(2);
    files.inject(slow);
    slow.path_contains = "out/__";  // shards
    files.inject(slow);
    const pid_t child = fork();
    if (child != 0) return child;
    try {
      _exit(go(files).resumed_bytes > 0 ? kResumed : 0);
    } catch (const Error& error) {
      std::cerr << error.what() << std::endl;
      _exit(1);
    }
  }
  bool has_ended_by_signal(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    resumed_ = WIFEXITED(status) && WEXITSTATUS(status) == kResumed;
    EXPECT_TRUE(WIFSIGNALED(status) || resumed_ || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
  }
  static constexpr int kResumed = 7;
  bool resumed_ = false;  // the last child, to its end

  void clear() {
    for (const auto& name : left()) posix_file_system().unlink(dir / ("out/" + name));
  }
};

const std::vector<Operation> kChanging{
    Operation::create,         Operation::open_write, Operation::rename,   Operation::unlink,
    Operation::sync_directory, Operation::write,      Operation::allocate, Operation::sync,
    Operation::close,          Operation::lock,       Operation::link};

// Kills at each call of each operation that changes something, in the ordinary run at every `step`-th; the
// same command then ends with the same files.
void expect_any_kill_is_survived(Trial& run, const Names& files, std::uint64_t step,
                                 const std::string& old = {}, Names old_files = {}) {
  if (std::getenv("CAIRN_KILLS") != nullptr) step = 1;
  if (old_files.empty()) old_files = files;
  const auto put_old = [&] {
    run.clear();
    for (const auto& name : old_files)
      if (!old.empty()) run.dir.write("out/" + name, old);
  };
  run.options.overwrite = !old.empty();
  put_old();
  run.go();
  std::vector<std::string> expected;
  for (const auto& name : files) expected.push_back(run.output(name));
  std::uint64_t kills = 0, resumed = 0;
  for (const Operation operation : kChanging) {
    for (std::uint64_t call = 0;; call += step) {
      put_old();
      if (!run.is_killed(operation, call)) break;
      ++kills;
      const std::string what =
          "operation " + std::to_string(static_cast<int>(operation)) + ", call " + std::to_string(call);
      // killed behind the journal's end
      bool is_over = run.left() == files;
      for (std::size_t i = 0; is_over && i < files.size(); ++i) is_over = run.output(files[i]) == expected[i];
      const bool again = run.options.overwrite && run.ranks == 0;  // shards would get other numbers
      if (!is_over || again) resumed += run.go().resumed_bytes;
      EXPECT_EQ(run.left(), files) << what;
      for (std::size_t i = 0; i < files.size(); ++i)
        EXPECT_TRUE(run.output(files[i]) == expected[i]) << what << ": " << files[i];
    }
  }
  EXPECT_GT(kills, 30 / step);
  EXPECT_GT(resumed, 0u);
}

TEST(Resume, ARunKilledAtAnyCallGoesOn) {
  Trial run;
  expect_any_kill_is_survived(run, {"m.pth"}, 1);
}

TEST(Resume, ARunKilledAtAnyCallGoesOnWithoutSyncs) {
  Trial run;
  run.options.sync = false;
  expect_any_kill_is_survived(run, {"m.pth"}, 4);
}

TEST(Resume, ARunKilledAtAnyCallGoesOnWhenItReplacesFiles) {
  Trial run;
  run.options.sync = false;
  run.options.more_outputs = {run.dir / "out/half.pth:cast=float16", run.dir / "out/some.pth:select=s*"};
  expect_any_kill_is_survived(run, {"half.pth", "m.pth", "some.pth"}, 4, "the old one");
}

TEST(Resume, ARunKilledAtAnyCallGoesOnWithNewFiles) {
  Trial run;
  run.options.sync = false;
  run.options.more_outputs = {run.dir / "out/half.pth:cast=float16"};
  expect_any_kill_is_survived(run, {"half.pth", "m.pth"}, 4);
}

TEST(Resume, ARunKilledAtAnyCallGoesOnWithTheKernelsCopies) {
  Trial run;
  run.options.sync = false;
  run.options.copy = CopyMode::kernel;
  expect_any_kill_is_survived(run, {"m.pth"}, 4);
}

TEST(Resume, ASafetensorsFileKilledAtAnyCallGoesOn) {
  Trial run;
  run.write_safetensors(100'000'000);
  expect_any_kill_is_survived(run, {"model.safetensors"}, 4);
}

TEST(Resume, SafetensorsFilesKilledAtAnyCallGoOn) {
  const Names files{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                    "model.safetensors.index.json"};
  Trial run;
  run.options.sync = false;
  run.write_safetensors(4'000'000);
  expect_any_kill_is_survived(run, files, 4);
  expect_any_kill_is_survived(run, files, 4, "the old one");
}

TEST(Resume, ADirectoryKilledAtAnyCallGoesOn) {
  Trial run;
  run.write_directory(3);
  run.dir.write("source/meta.pt", "whose copy lies beside");
  expect_any_kill_is_survived(run, {".metadata", "__0_0.distcp", "__1_0.distcp", "__2_0.distcp", "meta.pt"},
                              2);
}

TEST(Resume, ADirectoryKilledAtAnyCallGoesOnWhenItReplacesAnother) {
  Trial run;
  run.options.sync = false;
  run.write_directory(2);
  expect_any_kill_is_survived(run, {".metadata", "__0_1.distcp", "__1_1.distcp"}, 2, "the old one",
                              {".metadata", "__0_0.distcp", "__5_0.distcp", "cairn.manifest", "meta.pt"});
}

// One job after the other, each killed again and again until it comes to its end.
TEST(Resume, RandomKillsAreSurvived) {
  const char* wanted = std::getenv("CAIRN_KILLS");
  const int kills_wanted = wanted == nullptr ? 12 : std::atoi(wanted);
  Trial run;
  run.write_larger_source();
  run.go();
  const std::string expected = run.output();
  run.options.overwrite = true;
  std::mt19937 random(17);
  std::uint64_t resumed = 0;
  for (int kills = 0; kills < kills_wanted;) {
    run.options.threads = 1 + static_cast<int>(random() % 3);
    run.dir.write("out/m.pth", "the old one");
    while (run.is_killed_after(std::chrono::microseconds(random() % 150'000))) {
      ++kills;
      const std::string now = run.output();
      EXPECT_TRUE(now == "the old one" || now == expected);
    }
    EXPECT_EQ(run.left(), Names{"m.pth"});
    EXPECT_TRUE(run.output() == expected);
    resumed += run.resumed_ ? 1 : 0;
  }
  EXPECT_GT(resumed, 0u);
}

TEST(Resume, WhatIsWrittenIsNotReadAgain) {
  Trial run;
  const auto whole = run.go();
  run.clear();
  FaultyFileSystem files(posix_file_system());
  InjectedFault fault{.operation = Operation::rename, .path_contains = "m.pth.cairn-part"};
  fault.error_number = EIO;
  files.inject(fault);
  const Error error = failure_of([&] { run.go(files); });
  EXPECT_TRUE(contains(error, "the same command goes on")) << error.what();
  EXPECT_EQ(run.left(), (Names{".m.pth.cairn-journal", ".m.pth.cairn-part"}));
  const auto again = run.go();
  EXPECT_GT(again.resumed_bytes, 5u << 20);
  EXPECT_LT(again.read_bytes, whole.read_bytes / 10);
  EXPECT_EQ(again.verified_bytes, whole.verified_bytes);
  EXPECT_EQ(again.written_bytes, whole.written_bytes);
}

TEST(Resume, ACrcThatDoesNotFitBeginsAnew) {
  Trial run;
  run.go();
  const std::string whole = run.output();
  run.clear();
  FaultyFileSystem files(posix_file_system());
  InjectedFault fault{.operation = Operation::read, .path_contains = "__2_0.distcp"};
  fault.flip_bit_of_byte = 500'000;  // of a payload that several windows hold
  files.inject(fault);
  const Error error = failure_of([&] { run.go(files); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt) << error.what();
  EXPECT_TRUE(contains(error, "what is written is discarded")) << error.what();
  EXPECT_EQ(run.left(), Names{});
  EXPECT_EQ(run.go().resumed_bytes, 0u);
  EXPECT_TRUE(run.output() == whole);
}

// A run that failed at its third write of the output.
struct Interrupted : Trial {
  Interrupted() {
    FaultyFileSystem files(posix_file_system());
    InjectedFault fault{.operation = Operation::write, .path_contains = ".cairn-part", .first_call = 3};
    fault.error_number = ENOSPC;
    files.inject(fault);
    failure_of([&] { go(files); });
    EXPECT_EQ(left(), both);
  }
  const Names both{".m.pth.cairn-journal", ".m.pth.cairn-part"};

  void expect_refused(ErrorKind kind, const std::vector<std::string>& words) {
    const Error error = failure_of([&] { go(); });
    EXPECT_EQ(error.kind(), kind) << error.what();
    for (const auto& word : words) EXPECT_TRUE(contains(error, word)) << word << ": " << error.what();
    EXPECT_TRUE(contains(error, "--overwrite")) << error.what();
    EXPECT_EQ(left(), both);
  }
};

TEST(Resume, OtherThreadsMemoryAndWritersChangeNothing) {
  Interrupted run;
  run.options.threads = 3;
  run.options.max_memory = 20 << 20;
  run.options.write = WriteMode::shared;
  run.options.sync = false;
  EXPECT_GT(run.go().resumed_bytes, 0u);
  const std::string continued = run.output();
  run.clear();
  run.options.resume = false;
  run.go();
  EXPECT_TRUE(run.output() == continued);
}

TEST(Resume, AChangedSourceIsRefused) {
  Interrupted run;
  const std::string shard = run.dir.read("source/__1_0.distcp");
  run.dir.write("source/__1_0.distcp", shard);  // another time
  run.expect_refused(ErrorKind::mismatch, {"__1_0.distcp", "modified"});
  run.dir.write("source/__1_0.distcp", shard + "x");
  run.expect_refused(ErrorKind::mismatch, {"__1_0.distcp", std::to_string(shard.size() + 1)});
}

TEST(Resume, OtherOptionsAreRefusedByName) {
  const std::vector<std::pair<std::string, void (*)(ConsolidateOptions&)>> changes{
      {"--flat", [](ConsolidateOptions& o) { o.flat = true; }},
      {"--align", [](ConsolidateOptions& o) { o.alignment = 4096; }},
      {"--select", [](ConsolidateOptions& o) { o.names.select = {"rows"}; }},
      {"--cast", [](ConsolidateOptions& o) { o.names.cast = {"float16"}; }},
      {"--objects", [](ConsolidateOptions& o) { o.objects = ObjectPolicy::drop; }},
      {"--copy", [](ConsolidateOptions& o) { o.copy = CopyMode::kernel; }},
      {"--output", [](ConsolidateOptions& o) { o.more_outputs = {o.destination + "2:select=rows"}; }},
      {"--verify-source", [](ConsolidateOptions& o) { o.verify_source = false; }}};
  Interrupted run;
  const ConsolidateOptions same = run.options;
  for (const auto& [word, change] : changes) {
    run.options = same;
    change(run.options);
    run.expect_refused(ErrorKind::mismatch, {word});
    run.options.overwrite = true;
    run.expect_refused(ErrorKind::mismatch, {word});
  }
}

TEST(Resume, ADamagedJournalIsRefused) {
  Interrupted run;
  std::string journal = run.dir.read("out/.m.pth.cairn-journal");
  for (const std::size_t at : {std::size_t{0}, std::size_t{40}, journal.size() - 1}) {
    std::string damaged = journal;
    damaged[at] ^= 4;
    run.dir.write("out/.m.pth.cairn-journal", damaged);
    run.expect_refused(ErrorKind::corrupt, {".m.pth.cairn-journal"});
  }
  run.dir.write("out/.m.pth.cairn-journal", "");
  run.expect_refused(ErrorKind::corrupt, {".m.pth.cairn-journal"});
}

TEST(Resume, ATemporaryThatIsAnotherFileIsRefused) {
  Interrupted run;
  const std::string part = run.dir.read("out/.m.pth.cairn-part");
  posix_file_system().rename(run.dir / "out/.m.pth.cairn-part", run.dir / "elsewhere");
  run.dir.write("out/.m.pth.cairn-part", part);
  run.expect_refused(ErrorKind::mismatch, {".m.pth.cairn-part", "inode"});
  posix_file_system().rename(run.dir / "elsewhere", run.dir / "out/.m.pth.cairn-part");
  posix_file_system().open_write(run.dir / "out/.m.pth.cairn-part")->allocate(part.size() - 1);
  run.expect_refused(ErrorKind::mismatch, {".m.pth.cairn-part", std::to_string(part.size())});
}

TEST(Resume, UnsyncedBytesOfAMachineThatWasStartedAnewAreNotTrusted) {
  Interrupted run;
  const std::string path = run.dir / "out/.m.pth.cairn-journal";
  const auto content = read_journal(posix_file_system(), path);
  JournalFile::reopen(posix_file_system(), path, *content, false)
      .add_machines(std::vector<std::string>{"before the power went"});
  run.expect_refused(ErrorKind::mismatch, {"--no-sync"});
}

TEST(Resume, ATemporaryThatIsInUseIsLeftAlone) {
  Interrupted run;
  const auto other = posix_file_system().open_write(run.dir / "out/.m.pth.cairn-part");
  ASSERT_TRUE(other->try_lock());
  EXPECT_TRUE(contains(failure_of([&] { run.go(); }), "another run"));
  run.options.overwrite = true;
  EXPECT_TRUE(contains(failure_of([&] { run.go(); }), "another run"));
  EXPECT_EQ(run.left(), run.both);
}

TEST(Resume, WithoutItWhatIsLeftIsRefusedWithBothHints) {
  Interrupted run;
  run.options.resume = false;
  const Error error = failure_of([&] { run.go(); });
  EXPECT_EQ(error.kind(), ErrorKind::already_exists);
  EXPECT_TRUE(contains(error, "--resume"));
  EXPECT_TRUE(contains(error, "--overwrite"));
  EXPECT_EQ(run.left(), run.both);
  run.options.overwrite = true;
  run.go();
  EXPECT_EQ(run.left(), Names{"m.pth"});
}

TEST(Resume, AnOutputThatIsThereIsNotReplacedUnasked) {
  Interrupted run;
  run.dir.write("out/m.pth", "somebody's");
  EXPECT_EQ(failure_of([&] { run.go(); }).kind(), ErrorKind::already_exists);
  EXPECT_EQ(run.output(), "somebody's");
  run.options.overwrite = true;
  EXPECT_GT(run.go().resumed_bytes, 0u);
  EXPECT_EQ(run.left(), Names{"m.pth"});
}

TEST(Resume, ATemporaryWithoutJournalIsBegunAnew) {
  Interrupted run;
  posix_file_system().unlink(run.dir / "out/.m.pth.cairn-journal");
  EXPECT_EQ(run.go().resumed_bytes, 0u);
  EXPECT_EQ(run.left(), Names{"m.pth"});
}

// As after a kill between the last rename and the journal's end.
struct Over : Trial {
  Over() {
    FaultyFileSystem files(posix_file_system());
    InjectedFault fault{.operation = Operation::unlink, .path_contains = ".cairn-journal"};
    fault.error_number = EIO;
    files.inject(fault);
    go(files);
    EXPECT_EQ(left(), (Names{".m.pth.cairn-journal", "m.pth"}));
  }
};

TEST(Resume, AFinishedJobIsFinished) {
  Over run;
  const std::string output = run.output();
  const auto report = run.go();
  EXPECT_EQ(report.outputs.at(0).bytes, output.size());
  EXPECT_EQ(run.left(), Names{"m.pth"});
  EXPECT_TRUE(run.output() == output);
  EXPECT_EQ(failure_of([&] { run.go(); }).kind(), ErrorKind::already_exists);
}

TEST(Resume, TheJournalOfAFinishedJobDoesNotClaimAnotherFile) {
  Over run;
  std::string output = run.output();
  output.back() ^= 1;
  run.dir.write("out/m.pth", output);  // the same inode, another content
  EXPECT_EQ(failure_of([&] { run.go(); }).kind(), ErrorKind::already_exists);
  EXPECT_TRUE(run.output() == output);
  run.options.overwrite = true;
  EXPECT_EQ(run.go().resumed_bytes, 0u);
  EXPECT_EQ(run.left(), Names{"m.pth"});
}

TEST(Resume, TheJournalOfAFinishedJobDoesNotHinderTheNext) {
  for (const bool resume : {true, false}) {
    Over run;
    run.options.flat = true;
    run.options.resume = resume;
    EXPECT_EQ(failure_of([&] { run.go(); }).kind(), ErrorKind::already_exists);
    run.options.overwrite = true;
    EXPECT_EQ(run.go().resumed_bytes, 0u);
    EXPECT_EQ(run.left(), Names{"m.pth"});
  }
}

// --- directories

// A run that failed at the write that made its shards nearly whole.
struct InterruptedDirectory : Trial {
  InterruptedDirectory() {
    write_directory(3);
    FaultyFileSystem files(posix_file_system());
    InjectedFault fault{.operation = Operation::write, .path_contains = "out/__", .first_call = 4};
    fault.error_number = ENOSPC;
    files.inject(fault);
    const Error error = failure_of([&] { go(files); });
    EXPECT_TRUE(contains(error, "the same command goes on")) << error.what();
    EXPECT_EQ(left(), all);
  }
  const Names all{"..metadata.cairn-journal", "..metadata.cairn-part", "__0_0.distcp", "__1_0.distcp",
                  "__2_0.distcp"};
  const Names whole{".metadata", "__0_0.distcp", "__1_0.distcp", "__2_0.distcp"};

  void expect_refused(ErrorKind kind, const std::vector<std::string>& words) {
    const Error error = failure_of([&] { go(); });
    EXPECT_EQ(error.kind(), kind) << error.what();
    for (const auto& word : words) EXPECT_TRUE(contains(error, word)) << word << ": " << error.what();
    EXPECT_TRUE(contains(error, "--overwrite")) << error.what();
  }
};

TEST(Resume, ADirectoryGoesOnAndNothingIsReadAgain) {
  InterruptedDirectory run;
  const auto report = run.go();
  EXPECT_GT(report.resumed_bytes, 2u << 20);
  EXPECT_EQ(run.left(), run.whole);
  VerifyOptions verify_options;
  verify_options.path = run.options.destination;
  const auto verified = verify(*run.comm, posix_file_system(), verify_options);
  EXPECT_TRUE(verified.faults.empty());
  EXPECT_EQ(verified.unchecked_items, 0u);
  std::vector<std::string> continued;
  for (const auto& name : run.whole) continued.push_back(run.output(name));
  run.clear();
  run.options.resume = false;
  const auto at_once = run.go();
  for (std::size_t i = 0; i < run.whole.size(); ++i)
    EXPECT_TRUE(run.output(run.whole[i]) == continued[i]) << run.whole[i];
  EXPECT_EQ(report.verified_bytes, at_once.verified_bytes);
  EXPECT_EQ(report.written_bytes, at_once.written_bytes);
  EXPECT_LT(report.read_bytes, at_once.read_bytes);
}

TEST(Resume, ADirectoryOfTensorsThatAreDequantizedAndCastGoesOn) {
  Trial run;
  DcpFixture fixture;
  fixture.add({"w", DType::float8_e4m3fn, {2048, 1024}, split({2048, 1024}, 0, 2)});
  fixture.add({"w_scale_inv", DType::float32, {16, 8}, split({16, 8}, 0, 1)});
  fixture.add({"other", DType::float32, {700, 800}, split({700, 800}, 1, 2)});
  fixture.write(run.dir, "source");
  run.write_directory(2);
  run.options.dequant = true;
  run.options.names.cast = {"other=float16"};
  FaultyFileSystem files(posix_file_system());
  InjectedFault fault{.operation = Operation::write, .path_contains = "out/__", .first_call = 5};
  fault.error_number = EIO;
  files.inject(fault);
  failure_of([&] { run.go(files); });
  EXPECT_GT(run.go().resumed_bytes, 1u << 20);
  const std::string first = run.output("__0_0.distcp"), second = run.output("__1_0.distcp");
  run.clear();
  run.options.resume = false;
  run.go();
  EXPECT_TRUE(run.output("__0_0.distcp") == first);
  EXPECT_TRUE(run.output("__1_0.distcp") == second);
}

TEST(Resume, ADirectoryWhoseCompanionChangedIsRefused) {
  Trial run;
  run.write_directory(2);
  run.dir.write("source/meta.pt", "whose copy lies beside");
  FaultyFileSystem files(posix_file_system());
  files.inject(
      {.operation = Operation::rename, .path_contains = "..metadata.cairn-part", .error_number = EIO});
  failure_of([&] { run.go(files); });
  run.dir.write("source/meta.pt", "whose copy lies there");
  const Error error = failure_of([&] { run.go(); });
  EXPECT_TRUE(contains(error, "meta.pt had 22 bytes")) << error.what();
}

TEST(Resume, OtherOptionsOfADirectoryAreRefusedByName) {
  const std::vector<std::pair<std::string, void (*)(Trial&)>> changes{
      {"--flat", [](Trial& t) { t.options.flat = true; }},
      {"--cast", [](Trial& t) { t.options.names.cast = {"float16"}; }},
      {"--select", [](Trial& t) { t.options.names.select = {"rows"}; }},
      {"--objects", [](Trial& t) { t.options.objects = ObjectPolicy::drop; }},
      {"DST", [](Trial& t) { t.options.destination = t.dir / "source/../out"; }},
      {"--ranks was '3' and is '2'", [](Trial& t) { t.ranks = 2; }}};
  InterruptedDirectory run;
  const ConsolidateOptions same = run.options;
  for (const bool overwrite : {false, true}) {
    for (const auto& [word, change] : changes) {
      run.options = same;
      run.options.overwrite = overwrite;
      run.ranks = 3;
      change(run);
      run.expect_refused(ErrorKind::mismatch, {word});
      EXPECT_EQ(run.left(), run.all);
    }
  }
  run.options = same;
  run.ranks = 3;
  EXPECT_GT(run.go().resumed_bytes, 0u);
}

TEST(Resume, WhatTheJournalOfADirectoryTellsMustBeThere) {
  InterruptedDirectory run;
  const std::string shard = run.dir / "out/__1_0.distcp", aside = run.dir / "aside";
  posix_file_system().rename(shard, aside);
  run.expect_refused(ErrorKind::mismatch, {"__1_0.distcp", "missing"});
  run.dir.write("out/__1_0.distcp", run.dir.read("aside"));
  run.expect_refused(ErrorKind::mismatch, {"__1_0.distcp", "inode"});
  posix_file_system().rename(aside, shard);
  std::string journal = run.output("..metadata.cairn-journal");
  journal[60] ^= 4;
  run.dir.write("out/..metadata.cairn-journal", journal);
  run.expect_refused(ErrorKind::corrupt, {"..metadata.cairn-journal"});
  EXPECT_EQ(run.left(), run.all);
  const auto other = posix_file_system().open_write(run.dir / "out/..metadata.cairn-part");
  ASSERT_TRUE(other->try_lock());
  EXPECT_TRUE(contains(failure_of([&] { run.go(); }), "another run"));
}

TEST(Resume, ADirectoryWithoutItsTemporaryIsRefusedAndLeftAsItIs) {
  InterruptedDirectory run;
  posix_file_system().unlink(run.dir / "out/..metadata.cairn-part");
  const Names left = run.left();
  for (int again = 0; again < 2; ++again) {
    run.expect_refused(ErrorKind::already_exists, {"__0_0.distcp", "has not made"});
    EXPECT_EQ(run.left(), left);
  }
}

// A signal has ended it while it made its shards, and somebody saved there.
TEST(Resume, ShardsOfAnotherAreNotTakenForThoseOfAJobThatHardlyBegan) {
  Trial run;
  run.write_directory(2);
  ASSERT_TRUE(run.is_killed(Operation::allocate, 2));
  ASSERT_EQ(run.left(),
            (Names{"..metadata.cairn-journal", "..metadata.cairn-part", "__0_0.distcp", "__1_0.distcp"}));
  posix_file_system().unlink(run.dir / "out/..metadata.cairn-part");
  run.dir.write("out/__0_0.distcp", "somebody's");
  run.dir.write("out/.metadata", "somebody's");
  const Names left = run.left();
  run.options.overwrite = true;
  for (const int ranks : {2, 3}) {  // the same job, another one
    run.ranks = ranks;
    const Error error = failure_of([&] { run.go(); });
    EXPECT_EQ(error.kind(), ErrorKind::already_exists) << error.what();
    EXPECT_TRUE(contains(error, "__0_0.distcp")) << error.what();
    EXPECT_EQ(run.left(), left);
  }
  EXPECT_EQ(run.output("__0_0.distcp"), "somebody's");
  run.options.resume = false;
  run.go();
  EXPECT_EQ(run.left(), (Names{".metadata", "__0_1.distcp", "__1_1.distcp", "__2_1.distcp"}));
}

TEST(Resume, ACheckpointThatWasSavedIntoTheSameFilesMeanwhileIsNotWrittenOver) {
  InterruptedDirectory run;
  run.dir.write("out/.metadata", run.dir.read("source/.metadata"));  // has __0_0.distcp
  const std::string shard = run.output("__0_0.distcp");
  run.options.overwrite = true;
  run.expect_refused(ErrorKind::mismatch, {".metadata", "saved since", "__0_0.distcp"});
  EXPECT_TRUE(run.output("__0_0.distcp") == shard);
  run.dir.write("out/.metadata", "that nobody can read");
  EXPECT_GT(run.go().resumed_bytes, 1u << 20);
  EXPECT_EQ(run.left(), run.whole);
}

TEST(Resume, WithoutItTheDirectoryOfAJobIsRefusedUnlessItMayBeReplaced) {
  InterruptedDirectory run;
  run.options.resume = false;
  run.expect_refused(ErrorKind::already_exists, {"--resume"});
  EXPECT_EQ(run.left(), run.all);
  run.options.overwrite = true;
  run.go();
  EXPECT_EQ(run.left(), (Names{".metadata", "__0_1.distcp", "__1_1.distcp", "__2_1.distcp"}));
}

TEST(Resume, ADirectoryWithoutItsJournalIsBegunAnew) {
  InterruptedDirectory run;
  posix_file_system().unlink(run.dir / "out/..metadata.cairn-journal");
  const auto report = run.go();
  EXPECT_EQ(report.resumed_bytes, 0u);
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("3 shard files"), std::string::npos) << report.warnings[0];
}

TEST(Resume, ACrcThatDoesNotFitLeavesNothingOfADirectory) {
  Trial run;
  run.write_directory(2);
  run.options.destination += "/new";
  FaultyFileSystem files(posix_file_system());
  InjectedFault fault{.operation = Operation::read, .path_contains = "__2_0.distcp"};
  fault.flip_bit_of_byte = 500'000;
  files.inject(fault);
  const Error error = failure_of([&] { run.go(files); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt) << error.what();
  EXPECT_TRUE(contains(error, "what is written is discarded")) << error.what();
  EXPECT_EQ(run.left(), Names{});
  EXPECT_EQ(run.go().resumed_bytes, 0u);
}

TEST(Resume, ADirectoryWhoseJobIsOverIsFoundComplete) {
  for (const bool overwrite : {false, true}) {
    Trial run;
    run.write_directory(2);
    run.options.overwrite = overwrite;
    FaultyFileSystem files(posix_file_system());
    InjectedFault fault{.operation = Operation::unlink, .path_contains = ".cairn-journal"};
    fault.error_number = EIO;
    files.inject(fault);
    run.go(files);
    const std::string shard = run.output("__1_0.distcp");
    run.ranks = 3;
    EXPECT_TRUE(contains(failure_of([&] { run.go(); }), "--ranks was '2'"));
    run.ranks = 2;
    EXPECT_GT(run.go().resumed_bytes, 0u);
    EXPECT_EQ(run.left(), (Names{".metadata", "__0_0.distcp", "__1_0.distcp"}));
    EXPECT_TRUE(run.output("__1_0.distcp") == shard);
    run.options.overwrite = false;
    EXPECT_EQ(failure_of([&] { run.go(); }).kind(), ErrorKind::already_exists);
  }
}

TEST(Resume, SeveralDirectoriesOfOneFileGoOnWhereOneIsPublished) {
  TempDir dir;
  for (const std::string component : {"model", "optim"}) {
    DcpFixture fixture;
    fixture.add({component + ".w", DType::int32, {900, 1000}, split({900, 1000}, 0, 3)});
    fixture.write(dir, "iter_000000001/" + component);
  }
  const auto comm = solo_communicator();
  ConvertOptions options;
  options.source = dir / "iter_000000001";
  options.whole_iteration = true;
  options.destination = dir / "plain";
  options.split = {"model=one", "optim=two"};
  options.ranks = 2;
  options.threads = 1;
  convert(*comm, posix_file_system(), options);
  options.destination = dir / "out";
  options.resume = true;
  options.journal_interval_s = 0.001;
  FaultyFileSystem files(posix_file_system());
  InjectedFault fault{.operation = Operation::write, .path_contains = "two/__", .first_call = 2};
  fault.error_number = EIO;
  files.inject(fault);
  failure_of([&] { convert(*comm, files, options); });
  EXPECT_TRUE(posix_file_system().status(dir / "out/one/.metadata"));
  EXPECT_FALSE(posix_file_system().status(dir / "out/two/.metadata"));
  EXPECT_GT(convert(*comm, posix_file_system(), options).resumed_bytes, 3'600'000u);
  const Names names{".metadata", "__0_0.distcp", "__1_0.distcp"};
  for (const std::string part : {"one", "two"}) {
    EXPECT_EQ(posix_file_system().list(dir / ("out/" + part)), names);
    for (const auto& name : names) {
      if (name == ".metadata") continue;  // it says where it is
      EXPECT_TRUE(dir.read("out/" + part + "/" + name) == dir.read("plain/" + part + "/" + name)) << name;
    }
  }
}

}  // namespace
}  // namespace cairn
