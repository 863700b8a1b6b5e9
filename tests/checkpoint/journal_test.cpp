// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/journal.hpp"

#include <gtest/gtest.h>

#include "base/crc32.hpp"
#include "checkpoint/journal_file.hpp"
#include "failure_of.hpp"
#include "temp_dir.hpp"

namespace cairn {
namespace {

JournalJob small_job() {
  JournalJob job;
  job.source = "/source";
  job.options = {{"--flat", "no"}, {"--select", "a.*"}};
  job.metadata_bytes = 100;
  job.metadata_hash = 7;
  job.plan_hash = 8;
  job.window_count = 50;
  job.shards = {{"__0_0.distcp", 1000, 5}, {"__1_0.distcp", 2000, -6}};
  job.outputs = {{"/out/m.pth", 3000, 11}, {"/out/n.pth", 4000, 12}};
  return job;
}

FinishedWindows windows(std::vector<std::uint64_t> numbers) {
  FinishedWindows finished;
  for (const std::uint64_t number : numbers) {
    finished.passed.written.push_back({1, number * 10, 10, static_cast<std::uint32_t>(number)});
    finished.passed.read.push_back({2, number * 10, 10, static_cast<std::uint32_t>(number)});
    finished.passed.verified_bytes += number;
  }
  finished.windows = std::move(numbers);
  return finished;
}

/// Where each entry of a journal begins, and its end.
struct Written {
  Bytes bytes;
  std::vector<std::size_t> starts;
  void add(const Bytes& entry) {
    starts.push_back(bytes.size());
    bytes.insert(bytes.end(), entry.begin(), entry.end());
  }
};

Written small_journal() {
  Written journal;
  journal.bytes = begin_journal(small_job());
  journal.starts = {16};
  journal.add(machines_entry(1, std::vector<std::string>{"here", "there"}));
  journal.add(windows_entry(2, encode_windows(windows({3, 1, 2, 9}))));
  journal.add(windows_entry(3, encode_windows(windows({4, 49}))));
  journal.add(complete_entry(4, std::vector<std::uint32_t>{5, 6}));
  return journal;
}

JournalContent decode(std::span<const std::byte> bytes) { return decode_journal(bytes, "/out/journal"); }

void expect_refused(const Bytes& bytes, const std::string& what) {
  const Error error = failure_of([&] { decode(bytes); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt) << what;
  EXPECT_TRUE(contains(error, "/out/journal")) << what << ": " << error.what();
}

TEST(Journal, SaysWhatItWasTold) {
  const Written written = small_journal();
  const JournalContent content = decode(written.bytes);
  EXPECT_EQ(difference(content.job, small_job()), "");
  EXPECT_EQ(content.job.outputs[1].inode, 12u);
  EXPECT_EQ(content.machines, (std::vector<std::string>{"here", "there"}));
  ASSERT_EQ(content.finished.size(), 4u);  // 1 to 3, 4, 9, 49
  EXPECT_EQ(content.finished[0].begin, 1u);
  EXPECT_EQ(content.finished[0].end, 4u);
  EXPECT_EQ(content.finished[3].begin, 49u);
  EXPECT_EQ(content.passed.verified_bytes, 3u + 1 + 2 + 9 + 4 + 49);
  EXPECT_EQ(content.tails, (std::vector<std::uint32_t>{5, 6}));
  EXPECT_EQ(content.bytes, written.bytes.size());
  EXPECT_EQ(content.entries, 5u);
}

TEST(Journal, AnyCutBehindTheFirstEntryLeavesTheWholeEntriesBefore) {
  const Written written = small_journal();
  for (std::size_t size = written.starts[1]; size < written.bytes.size(); ++size) {
    const JournalContent content = decode(std::span(written.bytes).first(size));
    EXPECT_EQ(content.bytes, *(std::ranges::upper_bound(written.starts, size) - 1));
    EXPECT_FALSE(content.is_complete());
  }
}

TEST(Journal, ACutWithinTheFirstEntryIsRefused) {
  const Written written = small_journal();
  for (std::size_t size = 0; size < written.starts[1]; ++size)
    expect_refused(Bytes(written.bytes.begin(), written.bytes.begin() + static_cast<std::ptrdiff_t>(size)),
                   "cut to " + std::to_string(size));
}

TEST(Journal, EveryChangedByteIsNoticed) {
  const Written written = small_journal();
  for (std::size_t at = 0; at < written.bytes.size(); ++at) {
    Bytes bytes = written.bytes;
    bytes[at] ^= std::byte{0x10};
    expect_refused(bytes, "byte " + std::to_string(at));
  }
}

TEST(Journal, ZerosAtTheEndAreWhatPowerLossLeaves) {
  Written written = small_journal();
  const std::size_t whole = written.bytes.size();
  written.bytes.resize(whole + 5000);
  EXPECT_EQ(decode(written.bytes).bytes, whole);
  written.bytes.back() = std::byte{1};
  expect_refused(written.bytes, "a byte behind zeros");
}

TEST(Journal, EntriesThatContradictEachOtherAreRefused) {
  const auto with = [](const Bytes& entry) {
    Written journal;
    journal.bytes = begin_journal(small_job());
    journal.add(windows_entry(1, encode_windows(windows({3, 4}))));
    journal.add(entry);
    return journal.bytes;
  };
  expect_refused(with(windows_entry(2, encode_windows(windows({4})))), "a window twice");
  expect_refused(with(windows_entry(2, encode_windows(windows({50})))), "a window too far");
  expect_refused(with(windows_entry(3, encode_windows(windows({5})))), "an entry left out");
  expect_refused(with(windows_entry(1, encode_windows(windows({5})))), "an entry repeated");
  expect_refused(with(complete_entry(2, std::vector<std::uint32_t>{1})), "an output without its tail");
  expect_refused(with(complete_entry(2, std::vector<std::uint32_t>{1, 2, 3})), "a tail too many");
  const Bytes job = begin_journal(small_job());
  expect_refused(with(Bytes(job.begin() + 16, job.end())), "a second job");
  FinishedWindows odd = windows({5});
  odd.passed.read = {{0, ~std::uint64_t{0}, 2, 0}};
  expect_refused(with(windows_entry(2, encode_windows(std::move(odd)))), "a piece beyond all numbers");
}

TEST(Journal, WhatChangedIsNamed) {
  const auto changed = [](auto change) {
    JournalJob now = small_job();
    change(now);
    return difference(small_job(), now);
  };
  const auto has = [](const std::string& text, const std::string& word) {
    return text.find(word) != std::string::npos;
  };
  EXPECT_TRUE(has(changed([](JournalJob& job) { job.source = "/other"; }), "/other"));
  EXPECT_EQ(changed([](JournalJob& job) { job.options[1].second = "b"; }), "--select was 'a.*' and is 'b'");
  EXPECT_TRUE(has(changed([](JournalJob& job) { job.metadata_hash = 0; }), ".metadata"));
  EXPECT_TRUE(has(changed([](JournalJob& job) { job.shards[1].bytes = 0; }), "__1_0.distcp had 2000 bytes"));
  EXPECT_TRUE(has(changed([](JournalJob& job) { job.shards[0].modified_ns = 0; }), "__0_0.distcp"));
  EXPECT_TRUE(has(changed([](JournalJob& job) { job.shards.pop_back(); }), "__1_0.distcp"));
  EXPECT_TRUE(has(changed([](JournalJob& job) { job.shards.push_back({"new", 1, 1}); }), "new is new"));
  EXPECT_TRUE(has(changed([](JournalJob& job) { job.outputs[1].path = "/out/o.pth"; }), "/out/o.pth"));
  EXPECT_TRUE(has(changed([](JournalJob& job) { job.plan_hash = 0; }), "layout"));
  EXPECT_EQ(changed([](JournalJob& job) { job.outputs[0].inode = 99; }), "");
}

TEST(JournalFile, GoesOnBehindTheLastWholeEntry) {
  const TempDir dir;
  FileSystem& files = posix_file_system();
  const std::string path = dir / ".m.pth.cairn-journal";
  {
    auto journal = JournalFile::create(files, path, small_job(), true);
    journal.add_windows(encode_windows(windows({1, 2})));
    journal.add_windows(encode_windows(windows({7})));
  }
  const std::string whole = dir.read(".m.pth.cairn-journal");
  dir.write(".m.pth.cairn-journal", whole.substr(0, whole.size() - 3));
  const auto before = read_journal(files, path);
  ASSERT_TRUE(before);
  EXPECT_EQ(before->finished.size(), 1u);
  auto journal = JournalFile::reopen(files, path, *before, true);
  journal.add_windows(encode_windows(windows({7})));
  EXPECT_EQ(dir.read(".m.pth.cairn-journal"), whole);
  journal.remove();
  EXPECT_FALSE(read_journal(files, path));
  EXPECT_TRUE(files.list(dir.path()).empty());
}

}  // namespace
}  // namespace cairn
