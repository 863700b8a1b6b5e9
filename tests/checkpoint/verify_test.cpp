// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <set>

#include "cairn/checkpoint.hpp"
#include "dcp_fixture.hpp"
#include "failure_of.hpp"
#include "storage/fault.hpp"

namespace cairn {
namespace {

const std::string kShard = "c/__0_0.distcp";

class Verify : public testing::Test {
 protected:
  VerifyReport verify(const std::string& path, bool strict = false, int threads = 1) {
    VerifyOptions options;
    options.path = dir_.path() + "/" + path;
    options.strict = strict;
    options.threads = threads;
    const auto comm = solo_communicator();
    return cairn::verify(*comm, files_, options);
  }

  /// Two chunks, an object and a tensor without elements in one shard.
  void write_small() {
    DcpFixture fixture;
    fixture.add({"net.weight", DType::float32, {4, 3}, {{{{0, 0}, {2, 3}}}, {{{2, 0}, {2, 3}}}}});
    fixture.add({"none", DType::float32, {0}, {{{{0}, {0}}}}});
    fixture.add_object("note", "hello");
    fixture.write(dir_, "c");
  }

  std::set<std::string> kinds(const VerifyReport& report) {
    std::set<std::string> found;
    for (const Fault& fault : report.faults.faults()) found.emplace(to_string(fault.kind));
    return found;
  }

  TempDir dir_;
  FaultyFileSystem files_{posix_file_system()};
};

std::string described(const VerifyReport& report) {
  std::string text;
  for (const Fault& fault : report.faults.faults()) {
    text += std::string(to_string(fault.kind)) + " " + fault.name + " " + fault.file + " " +
            std::to_string(fault.byte_offset) + " " + fault.message + "\n";
  }
  return text + std::to_string(report.faults.count()) + " " + std::to_string(report.checked_bytes) + " " +
         std::to_string(report.unchecked_items);
}

TEST_F(Verify, AWholeDirectoryHasNoFaultAndEveryRecordIsCompared) {
  write_small();
  const auto report = verify("c", true);
  EXPECT_TRUE(report.faults.empty()) << described(report);
  EXPECT_EQ(report.unchecked_items, 0u);
  EXPECT_GT(report.checked_bytes, 48u);
  EXPECT_TRUE(report.warnings.empty());
}

// Bytes of a header that no reader uses: versions, times, attributes, disk numbers, the id of an empty pad.
std::set<std::size_t> idle_bytes(std::string_view bytes) {
  struct Part {
    std::string_view signature;
    std::vector<std::pair<std::size_t, std::size_t>> idle;  // offset, count
  };
  const std::vector<Part> parts{{"PK\3\4", {{4, 2}, {10, 4}}},
                                {"PK\1\2", {{4, 4}, {12, 4}, {34, 8}}},
                                {"PK\6\6", {{12, 4}}},
                                {"PK\6\7", {{4, 4}, {16, 4}}},
                                {std::string_view("FB\0\0", 4), {{0, 2}}}};
  std::set<std::size_t> idle;
  for (const Part& part : parts) {
    for (auto at = bytes.find(part.signature); at != bytes.npos; at = bytes.find(part.signature, at + 1)) {
      for (const auto& [offset, count] : part.idle) {
        for (std::size_t i = 0; i < count; ++i) idle.insert(at + offset + i);
      }
    }
  }
  return idle;
}

// In place: rewriting a file flushes it on some file systems.
void poke(const std::string& path, std::size_t at, char byte) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

TEST_F(Verify, EveryFlippedByteThatAnythingDependsOnIsAFault) {
  write_small();
  const std::string whole = dir_.read(kShard);
  const auto idle = idle_bytes(whole);
  const std::size_t object_and_chunk = whole.find("PK\5\6", whole.find("PK\5\6") + 1) + 22;
  for (std::size_t at = 0; at < object_and_chunk; ++at) {
    poke(dir_ / kShard, at,
         static_cast<char>(whole[at] ^ 0x40));  // 1 could turn a deferred size into the size
    const auto report = verify("c");
    poke(dir_ / kShard, at, whole[at]);
    EXPECT_EQ(report.faults.empty(), idle.contains(at)) << at << " of " << whole.size() << described(report);
    for (const Fault& fault : report.faults.faults()) {
      EXPECT_EQ(fault.file, "__0_0.distcp");
      EXPECT_FALSE(fault.name.empty());
    }
  }
}

TEST_F(Verify, EveryTruncationIsAShortFile) {
  write_small();
  const std::string whole = dir_.read(kShard);
  for (std::size_t size = 0; size < whole.size(); size += 61) {
    dir_.write(kShard, whole.substr(0, size));
    const auto report = verify("c");
    EXPECT_EQ(kinds(report), std::set<std::string>{"short_file"}) << size << described(report);
  }
}

TEST_F(Verify, PayloadDamageNamesTensorBoxFileAndPlace) {
  write_small();
  std::string bytes = dir_.read(kShard);
  const std::string second(reinterpret_cast<const char*>("\6\0\0\0\7\0\0\0"), 8);  // element 6 of the tensor
  const auto at = bytes.find(second);
  ASSERT_NE(at, bytes.npos);
  bytes[at + 4] ^= 1;
  dir_.write(kShard, bytes);
  const auto report = verify("c");
  ASSERT_EQ(report.faults.count(), 1u) << described(report);
  const Fault& fault = report.faults.faults()[0];
  EXPECT_EQ(fault.kind, FaultKind::crc);
  EXPECT_EQ(fault.name, "net.weight");
  EXPECT_EQ(fault.byte_offset, at);
  EXPECT_NE(fault.message.find("[2:4, 0:3]"), fault.message.npos) << fault.message;
}

// --- sharing out

/// A tensor of several slices, and many small ones: 100 in each of three files.
void write_mixed(const TempDir& dir) {
  DcpFixture fixture;
  fixture.add({"large", DType::uint8, {9 << 20}, {{{{0}, {9 << 20}}, "large.distcp"}}});
  fixture.add({"middle", DType::int32, {100'000}, {{{{0}, {100'000}}, "middle.distcp"}}});
  for (int i = 0; i < 300; ++i) {
    const std::int64_t size = i * 7 % 50;
    fixture.add(
        {"s" + std::to_string(i), DType::int16, {size}, {{{{0}, {size}}, "small" + std::to_string(i % 3)}}});
  }
  fixture.write(dir, "c");
}

void flip(const TempDir& dir, const std::string& file, std::size_t at) {
  std::string bytes = dir.read(file);
  bytes.at(at) ^= 1;
  dir.write(file, bytes);
}

TEST_F(Verify, EveryByteIsReadOnceInLargeReads) {
  write_mixed(dir_);
  const auto report = verify("c");
  EXPECT_TRUE(report.faults.empty()) << described(report);
  const auto reads = files_.count(Operation::read);
  EXPECT_LT(reads.calls, 70u);  // 9 MiB in pieces of 256 KiB, and not one for each of 300 items
  EXPECT_LT(reads.bytes, 11u << 20);
  EXPECT_EQ(report.read_bytes < reads.bytes, true);
}

TEST_F(Verify, ReportsAreTheSameForAnyNumberOfThreads) {
  write_mixed(dir_);
  for (const std::size_t at : {1u << 20, 5u << 20, 9u << 20}) flip(dir_, "c/large.distcp", at);
  for (const char* file : {"c/small0", "c/small1", "c/small2"}) {
    for (std::size_t at = 100; at < dir_.read(file).size(); at += 977) flip(dir_, file, at);
  }
  const auto one = verify("c", false, 1);
  EXPECT_GT(one.faults.count(), 100u);
  EXPECT_EQ(one.faults.faults()[0].file, "large.distcp");
  for (const int threads : {2, 5}) EXPECT_EQ(described(verify("c", false, threads)), described(one));
}

TEST_F(Verify, ALargeRecordIsComparedAsAWholeFromItsSlices) {
  write_mixed(dir_);
  const auto whole = verify("c", false, 2);
  EXPECT_GT(whole.checked_bytes, 9u << 20);
  for (const std::size_t at : {std::size_t{5} << 20, (std::size_t{4} << 20) - 1, std::size_t{4} << 20}) {
    flip(dir_, "c/large.distcp", at);
    const auto report = verify("c", false, 2);
    ASSERT_EQ(report.faults.count(), 1u) << described(report);
    EXPECT_EQ(report.faults.faults()[0].kind, FaultKind::crc);
    EXPECT_EQ(report.checked_bytes, whole.checked_bytes);
    flip(dir_, "c/large.distcp", at);
  }
}

TEST_F(Verify, DamagedHeadersOfALargeItemAreFoundOnce) {
  write_mixed(dir_);
  const std::string bytes = dir_.read("c/large.distcp");
  const std::size_t header = bytes.find("archive/data/0") - 30,
                    descriptor = bytes.rfind("PK\7\10", bytes.rfind("data/0"));
  for (const std::size_t at :
       {std::size_t{0}, header, header + 6, header + 28, descriptor, bytes.size() - 22}) {
    flip(dir_, "c/large.distcp", at);
    const auto report = verify("c", false, 2);
    EXPECT_EQ(kinds(report).count("header"), 1u) << at << described(report);
    EXPECT_LE(report.faults.count(), 4u) << at << described(report);
    flip(dir_, "c/large.distcp", at);
  }
}

TEST_F(Verify, FaultsBeyondTheLimitAreCounted) {
  DcpFixture fixture;
  for (int i = 0; i < 1200; ++i) fixture.add({"s" + std::to_string(i), DType::uint8, {1}, {{{{0}, {1}}}}});
  fixture.write(dir_, "c");
  std::string bytes = dir_.read(kShard);
  for (auto at = bytes.find("archive/data/0"); at != bytes.npos; at = bytes.find("archive/data/0", at + 1)) {
    if (bytes.compare(at - 30, 4, "PK\3\4") == 0) bytes[at] = 'b';
  }
  dir_.write(kShard, bytes);
  const auto report = verify("c", false, 3);
  EXPECT_EQ(report.faults.count(), 1200u);
  EXPECT_EQ(report.faults.faults().size(), 1000u);
  EXPECT_EQ(report.faults.faults()[999].name, "s999");
}

// --- what items say of themselves

TEST_F(Verify, SwappedItemsContradictTheMetadata) {
  DcpFixture fixture;
  fixture.add({"a", DType::float32, {2, 3}, {{{{0, 0}, {2, 3}}}}});
  fixture.add({"b", DType::float32, {3, 2}, {{{{0, 0}, {3, 2}}}}});
  fixture.add({"c", DType::uint32, {6}, {{{{0}, {6}}}}});
  fixture.add({"d", DType::uint16, {12}, {{{{0}, {12}}}}});
  fixture.write(dir_, "c");
  const std::string bytes = dir_.read(kShard);
  const std::size_t item = bytes.find("PK\5\6") + 22;
  ASSERT_EQ(bytes.size(), 4 * item);
  const auto swapped = [&](std::size_t first) {
    std::string changed = bytes;
    changed.replace(first * item, item, bytes.substr((first + 1) * item, item));
    changed.replace((first + 1) * item, item, bytes.substr(first * item, item));
    dir_.write(kShard, changed);
    return kinds(verify("c"));
  };
  EXPECT_EQ(swapped(0), std::set<std::string>{"shape"});
  EXPECT_EQ(swapped(2), (std::set<std::string>{"dtype", "shape"}));
}

std::string without_crcs(std::string bytes) {
  for (const auto& [signature, offset] : {std::pair{"PK\1\2", 16}, std::pair{"PK\7\10", 4}}) {
    for (auto at = bytes.find(signature); at != bytes.npos; at = bytes.find(signature, at + 1)) {
      bytes.replace(at + static_cast<std::size_t>(offset), 4, 4, '\0');
    }
  }
  return bytes;
}

TEST_F(Verify, ItemsWithoutCrcAreCountedAndStrictNamesThem) {
  write_small();
  dir_.write(kShard, without_crcs(dir_.read(kShard)));
  const auto report = verify("c");
  EXPECT_TRUE(report.faults.empty()) << described(report);
  EXPECT_EQ(report.unchecked_items, 4u);
  EXPECT_EQ(report.checked_bytes, 0u);
  const auto strict = verify("c", true);
  EXPECT_EQ(strict.faults.count(), 4u) << described(strict);
  EXPECT_EQ(kinds(strict), std::set<std::string>{"crc"});
}

TEST_F(Verify, WithoutCrcsHeadersAndPicklesAreStillProven) {
  write_small();
  const std::string bytes = without_crcs(dir_.read(kShard));
  for (const char* part : {"archive/data/0", "_rebuild_tensor_v2", "FloatStorage", "little", "cuda:3"}) {
    std::string damaged = bytes;
    damaged[bytes.find(part) + 1] ^= 1;
    dir_.write(kShard, damaged);
    const bool matters = std::string_view(part) != "cuda:3";  // where a tensor was is nobody's business
    EXPECT_EQ(verify("c").faults.empty(), !matters) << part;
  }
}

// --- files

TEST_F(Verify, FailuresOfTheFileSystemAreErrorsThatNameTheFile) {
  write_small();
  for (const Operation operation : {Operation::open_read, Operation::read}) {
    for (const int number : {EIO, EACCES, ENOENT}) {
      if (operation == Operation::read && number == ENOENT) continue;
      files_.heal();
      InjectedFault fault{};
      fault.operation = operation;
      fault.path_contains = ".distcp";
      fault.error_number = number;
      files_.inject(fault);
      const Error error = failure_of([&] { verify("c"); });
      EXPECT_EQ(error.kind(), number == ENOENT ? ErrorKind::not_found : ErrorKind::io);
      EXPECT_TRUE(contains(error, "__0_0.distcp")) << error.what();
    }
  }
}

TEST_F(Verify, AFileThatShrinksMeanwhileIsShort) {
  write_mixed(dir_);
  InjectedFault fault{};
  fault.operation = Operation::read;
  fault.path_contains = "large.distcp";
  fault.first_call = 5;
  fault.short_read = true;
  files_.inject(fault);
  const auto report = verify("c");
  EXPECT_EQ(kinds(report), std::set<std::string>{"short_file"}) << described(report);
}

TEST_F(Verify, OrphansAndLeftoversAreWarnings) {
  write_small();
  for (const char* name :
       {"__7_0.distcp", ".metadata.tmp", ".x.pth.cairn-part", "__8_0.distcp.tmp", "readme.txt"}) {
    dir_.write(std::string("c/") + name, "x");
  }
  dir_.write("c/__9_0.distcp", "");  // of a rank with nothing to write
  const auto report = verify("c");
  EXPECT_TRUE(report.faults.empty());
  EXPECT_EQ(report.warnings.size(), 4u);
}

// --- torch files

TEST_F(Verify, TorchFilesOfEveryWriterAreWhole) {
  const std::string data = CAIRN_TEST_DATA "/zip/";
  for (const char* name :
       {"aligned_1024.pth", "empty_dict.pth", "one tensor.v1.pth", "several.pth", "thirty.pth"}) {
    std::ifstream file(data + name, std::ios::binary);
    dir_.write(name, std::string(std::istreambuf_iterator<char>(file), {}));
    const auto report = verify(name, true);
    EXPECT_TRUE(report.faults.empty()) << name << described(report);
    EXPECT_EQ(report.torch_files, 1u);
    EXPECT_GT(report.checked_bytes, 0u);
  }
}

TEST_F(Verify, EveryFlippedByteOfATorchFileIsAFault) {
  std::ifstream file(CAIRN_TEST_DATA "/zip/several.pth", std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(file), {}), path = dir_.write("m.pth", whole);
  const auto idle = idle_bytes(whole);
  for (std::size_t at = 4; at < whole.size();
       at += 1 + at % 3) {  // without its first bytes it is no torch file
    poke(path, at, static_cast<char>(whole[at] ^ 0xa5));
    try {
      const auto report = verify("m.pth");
      EXPECT_EQ(report.faults.empty(), idle.contains(at)) << at << described(report);
    } catch (const Error& error) {  // no longer known as one
      EXPECT_EQ(error.kind(), ErrorKind::unsupported) << at << error.what();
      EXPECT_LT(at, 64u);
    }
    poke(path, at, whole[at]);
  }
}

}  // namespace
}  // namespace cairn
