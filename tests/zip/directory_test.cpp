// SPDX-License-Identifier: BSD-3-Clause
#include "zip/directory.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/crc32.hpp"
#include "cairn/error.hpp"
#include "zip/golden.hpp"
#include "zip/torch_layout.hpp"

namespace cairn::zip {
namespace {

Directory directory_of(std::span<const std::byte> archive) {
  Directory directory;
  EXPECT_TRUE(read_directory(archive, archive.size(), "archive", directory));
  return directory;
}

std::vector<std::string> names_of(const Directory& directory) {
  std::vector<std::string> names;
  for (const Entry& entry : directory.entries) names.emplace_back(entry.name);
  return names;
}

// An archive of `count` records m/0, m/1, ... of one byte each.
Bytes archive_of(std::size_t count) {
  ByteWriter file, central;
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = "m/" + std::to_string(i);
    const RecordPlace place = place_record(name.size(), 1, offset, 64);
    write_local_header(name, place, file);
    file.write('x');
    write_descriptor(place, 0, file);
    write_central_entry(name, place, 0, central);
    offset = place.end();
  }
  file.append(central.view());
  write_end(offset, central.size(), count, file);
  return file.take();
}

class Readable : public testing::TestWithParam<const char*> {};

TEST_P(Readable, EveryPayloadHasTheCrcItsEntryStates) {
  const Bytes archive = golden(GetParam());
  const ReadAt read_at = reader_of(archive);
  const Directory directory = directory_of(archive);
  EXPECT_FALSE(directory.entries.empty());
  for (const Entry& entry : directory.entries) {
    const std::uint64_t payload = payload_offset(archive, directory, entry, "archive");
    EXPECT_EQ(payload_offset(read_at, directory, entry, "archive"), payload);
    EXPECT_EQ(read_local_header(read_at, directory, entry, "archive").payload_offset, payload);
    EXPECT_EQ(crc32(std::span(archive).subspan(payload, entry.size)), entry.crc) << entry.name;
  }
}

TEST_P(Readable, IsTheSameByRangesAndInMemory) {
  const Bytes archive = golden(GetParam());
  const Directory by_range = read_directory(reader_of(archive), archive.size(), "archive");
  const Directory in_memory = directory_of(archive);
  EXPECT_EQ(names_of(by_range), names_of(in_memory));
  EXPECT_EQ(by_range.byte_offset, in_memory.byte_offset);
  EXPECT_EQ(by_range.end_offset, in_memory.end_offset);
}

INSTANTIATE_TEST_SUITE_P(Files, Readable,
                         testing::Values("empty_dict.pth", "one tensor.v1.pth", "several.pth",
                                         "aligned_1024.pth", "thirty.pth", "python_stored.zip"));

TEST(Directory, ListsTorchsRecordsInWritingOrder) {
  const Directory directory = directory_of(golden("empty_dict.pth"));
  EXPECT_EQ(directory.entries.size(), 6U);
  const Bytes archive = golden("one tensor.v1.pth");
  const std::vector<std::string> expected{"one tensor.v1/data.pkl",
                                          "one tensor.v1/.format_version",
                                          "one tensor.v1/.storage_alignment",
                                          "one tensor.v1/byteorder",
                                          "one tensor.v1/data/0",
                                          "one tensor.v1/version",
                                          "one tensor.v1/.data/serialization_id"};
  EXPECT_EQ(names_of(directory_of(archive)), expected);
}

TEST(Directory, FindsEveryNameAndNoOther) {
  for (const std::size_t count : {1U, 16U, 17U, 1000U}) {
    const Bytes archive = archive_of(count);
    const Directory directory = directory_of(archive);
    for (const Entry& entry : directory.entries) EXPECT_EQ(directory.find(entry.name), &entry);
    EXPECT_EQ(directory.find("m/" + std::to_string(count)), nullptr);
    EXPECT_EQ(directory.find(""), nullptr);
  }
}

TEST(Directory, SmallOneTakesOneRequestLargeOneTwo) {
  for (const std::size_t count : {7U, 1000U}) {
    const Bytes archive = archive_of(count);
    int requests = 0;
    const ReadAt counted = [&](std::uint64_t offset, std::span<std::byte> into) {
      ++requests;
      reader_of(archive)(offset, into);
    };
    EXPECT_EQ(read_directory(counted, archive.size(), "archive").entries.size(), count);
    EXPECT_EQ(requests, count == 7 ? 1 : 2);
  }
}

TEST(Directory, SurvivesBeingMoved) {
  const Bytes archive = archive_of(20);
  Directory first = read_directory(reader_of(archive), archive.size(), "archive");
  const Directory second = std::move(first);
  EXPECT_EQ(second.find("m/19"), &second.entries[19]);
}

TEST(Directory, AsksForMoreUntilTheTailReachesBackToIt) {
  const Bytes archive = archive_of(9);
  const std::span<const std::byte> bytes(archive);
  const std::uint64_t reach = archive.size() - directory_of(archive).byte_offset;
  for (std::size_t count = 0; count <= archive.size(); ++count) {
    Directory directory;
    EXPECT_EQ(read_directory(bytes.last(count), archive.size(), "archive", directory), count >= reach)
        << count;
  }
}

TEST(Directory, IsFoundBehindTheLongestComment) {
  Bytes archive = archive_of(3);
  archive[archive.size() - 2] = archive[archive.size() - 1] = std::byte{0xff};
  archive.resize(archive.size() + 65535);
  EXPECT_EQ(directory_of(archive).entries.size(), 3U);
  EXPECT_EQ(read_directory(reader_of(archive), archive.size(), "archive").entries.size(), 3U);
  archive.resize(archive.size() + 1);
  EXPECT_THROW(read_directory(reader_of(archive), archive.size(), "archive"), Error);
}

TEST(Directory, WideFieldsComeFromZip64) {
  const Bytes skeleton = golden("two_wide.skeleton");
  const std::uint64_t first = (std::uint64_t{1} << 32) + 64, second = (std::uint64_t{1} << 32) + 1;
  Directory directory;
  ASSERT_TRUE(read_directory(skeleton, skeleton.size() + first + second, "archive", directory));
  EXPECT_EQ(directory.find("archive/data/0")->size, first);
  EXPECT_EQ(directory.find("archive/data/1")->compressed_size, second);
  EXPECT_GT(directory.find("archive/data/2")->header_offset, first + second);
}

TEST(LocalHeader, ShowsWhatTorchWrote) {
  const Bytes archive = golden("empty_dict.pth");
  const Directory directory = directory_of(archive);
  const LocalHeader header =
      read_local_header(reader_of(archive), directory, directory.entries[0], "archive");
  EXPECT_EQ(header.flags, 0x0808);
  EXPECT_EQ(header.crc, 0U);
  EXPECT_EQ(header.name, "empty_dict/data.pkl");
  EXPECT_EQ(as_text(header.extra).substr(0, 2), "FB");
  EXPECT_EQ(header.payload_offset, 64U);
}

TEST(ArchivePrefix, IsTheFolderOfTheFirstRecord) {
  const Bytes stored = golden("python_stored.zip");
  EXPECT_EQ(archive_prefix(directory_of(stored), "archive"), "model");
  Directory directory;
  EXPECT_THROW(archive_prefix(directory, "archive"), Error);
  directory.entries.push_back({.name = "data.pkl"});
  EXPECT_THROW(archive_prefix(directory, "archive"), Error);
}

}  // namespace
}  // namespace cairn::zip
