// SPDX-License-Identifier: BSD-3-Clause
// Damaged and lying archives: always an Error of the right kind, never more.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "cairn/error.hpp"
#include "zip/directory.hpp"
#include "zip/golden.hpp"
#include "zip/torch_layout.hpp"

namespace cairn::zip {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

// Everything a reader of the archive may ask for.
void read_all(std::span<const std::byte> archive) {
  Directory directory;
  read_directory(archive, archive.size(), "archive", directory);
  for (const Entry& entry : directory.entries) {
    const std::uint64_t payload = payload_offset(archive, directory, entry, "archive");
    ASSERT_LE(payload, directory.byte_offset);
    ASSERT_LE(entry.size, directory.byte_offset - payload);
    read_local_header(reader_of(archive), directory, entry, "archive");
  }
  const Directory again = read_directory(reader_of(archive), archive.size(), "archive");
  ASSERT_EQ(again.entries.size(), directory.entries.size());
}

std::optional<Error> failure(std::span<const std::byte> archive) {
  try {
    read_all(archive);
  } catch (const Error& error) {
    return error;
  }
  return {};
}

void expect_failure(std::span<const std::byte> archive, ErrorKind kind, std::string_view text) {
  const auto error = failure(archive);
  ASSERT_TRUE(error) << text;
  EXPECT_EQ(error->kind(), kind) << error->what();
  EXPECT_NE(error->message().find(text), std::string::npos) << error->what();
  EXPECT_EQ(error->message().find("archive: "), 0U) << error->what();
}

template <class T>
void put(Bytes& bytes, std::uint64_t at, T value) {
  std::memcpy(&bytes[static_cast<std::size_t>(at)], &value, sizeof(T));
}

// A torch file, and where its parts are.
struct Archive {
  Bytes bytes = golden("one tensor.v1.pth");
  std::uint64_t end = bytes.size() - 22;
  std::uint64_t locator = end - 20;
  std::uint64_t zip64 = locator - 56;
  std::uint64_t directory;
  std::uint64_t name_bytes = std::string_view("one tensor.v1/data.pkl").size();

  Archive() { std::memcpy(&directory, &bytes[zip64 + 48], 8); }
  std::uint64_t second_entry() const { return directory + 46 + name_bytes; }
};

TEST(Hostile, TruncationAtEveryLengthIsCorrupt) {
  const Bytes archive = golden("one tensor.v1.pth");
  for (std::size_t length = 0; length < archive.size(); ++length) {
    const auto error = failure(std::span(archive).first(length));
    ASSERT_TRUE(error) << length;
    EXPECT_EQ(error->kind(), ErrorKind::corrupt) << length;
  }
  EXPECT_FALSE(failure(archive));
}

TEST(Hostile, MissingFrontIsCorrupt) {
  const Bytes archive = golden("one tensor.v1.pth");
  for (std::size_t missing = 1; missing < archive.size(); ++missing) {
    EXPECT_TRUE(failure(std::span(archive).subspan(missing))) << missing;
  }
}

TEST(Hostile, NoChangedByteDoesMoreThanThrow) {
  for (const char* name : {"one tensor.v1.pth", "python_stored.zip", "thirty.pth"}) {
    Bytes archive = golden(name);
    for (std::byte& byte : archive) {
      const std::byte kept = byte;
      for (const int mask : {0x01, 0x08, 0x80, 0xff}) {
        byte = kept ^ static_cast<std::byte>(mask);
        (void)failure(archive);
      }
      byte = kept;
    }
  }
}

TEST(Hostile, EntryCountsMustAgreeAndFit) {
  Archive lie;
  put(lie.bytes, lie.end + 10, std::uint16_t{6});
  expect_failure(lie.bytes, ErrorKind::corrupt, "counts 7 entries and 6");
  put(lie.bytes, lie.end + 8, std::uint16_t{6});
  expect_failure(lie.bytes, ErrorKind::corrupt, "disagree");

  for (const std::uint64_t count : {std::uint64_t{6}, std::uint64_t{8}, kMost}) {
    Archive wide;
    put(wide.bytes, wide.end + 8, std::uint32_t{0xffffffff});
    put(wide.bytes, wide.zip64 + 24, count);
    put(wide.bytes, wide.zip64 + 32, count);
    EXPECT_TRUE(failure(wide.bytes)) << count;
  }
}

TEST(Hostile, DirectoryMustLieBeforeItsEndRecord) {
  for (const std::uint64_t offset : {std::uint64_t{1} << 40, kMost, kMost - 400}) {
    Archive lie;
    put(lie.bytes, lie.end + 16, std::uint32_t{0xffffffff});
    put(lie.bytes, lie.zip64 + 48, offset);
    expect_failure(lie.bytes, ErrorKind::corrupt, "passes its end record");
  }
  Archive lie;
  put(lie.bytes, lie.end + 12, std::uint32_t{0xffffffff});
  put(lie.bytes, lie.zip64 + 40, kMost);
  expect_failure(lie.bytes, ErrorKind::corrupt, "passes its end record");
}

TEST(Hostile, Zip64RecordMustStandBeforeItsLocator) {
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{1} << 40, kMost}) {
    Archive lie;
    put(lie.bytes, lie.locator + 8, offset);
    expect_failure(lie.bytes, ErrorKind::corrupt, "zip64 end record");
  }
  Archive lie;
  put(lie.bytes, lie.zip64 + 4, kMost);
  expect_failure(lie.bytes, ErrorKind::corrupt, "zip64 end record");
}

TEST(Hostile, VolumesAreUnsupported) {
  Archive lie;
  put(lie.bytes, lie.end + 4, std::uint32_t{0x00010001});
  expect_failure(lie.bytes, ErrorKind::unsupported, "volumes");
}

TEST(Hostile, RecordsMustLieBeforeTheDirectory) {
  Archive lie;
  for (const std::uint32_t offset : {static_cast<std::uint32_t>(lie.directory), 0x7fffffffU, 0xffffffffU}) {
    put(lie.bytes, lie.directory + 42, offset);
    expect_failure(lie.bytes, ErrorKind::corrupt, "passes the directory");
  }
  Archive large;
  put(large.bytes, large.directory + 20, std::uint32_t{0xfffffffe});
  expect_failure(large.bytes, ErrorKind::corrupt, "passes the directory");
}

TEST(Hostile, RecordsMustNotOverlap) {
  Archive lie;
  put(lie.bytes, lie.second_entry() + 42, std::uint32_t{0});
  expect_failure(lie.bytes, ErrorKind::corrupt, "overlap");
  put(lie.bytes, lie.directory + 42, std::uint32_t{1});  // now in falling order
  expect_failure(lie.bytes, ErrorKind::corrupt, "overlap");
}

TEST(Hostile, LocalHeaderMustBeThatOfItsEntry) {
  Archive signature, name, extra, size;
  put(signature.bytes, 0, 'Q');
  expect_failure(signature.bytes, ErrorKind::corrupt, "signature");
  put(name.bytes, 31, 'Q');
  expect_failure(name.bytes, ErrorKind::corrupt, "is not that of record");
  put(extra.bytes, 28, std::uint16_t{0xffff});
  expect_failure(extra.bytes, ErrorKind::corrupt, "passes the directory");
  put(size.bytes, size.directory + 24, std::uint32_t{5});
  expect_failure(size.bytes, ErrorKind::corrupt, "has 5 bytes and takes");
}

TEST(Hostile, CompressedAndEncryptedRecordsAreNamed) {
  expect_failure(golden("python_deflated.zip"), ErrorKind::unsupported, "'model/data.pkl' is compressed");
  Archive locally, centrally;
  put(locally.bytes, 6, std::uint16_t{0x0809});
  expect_failure(locally.bytes, ErrorKind::unsupported, "'one tensor.v1/data.pkl' is encrypted");
  put(centrally.bytes, centrally.directory + 8, std::uint16_t{0x0809});
  expect_failure(centrally.bytes, ErrorKind::unsupported, "'one tensor.v1/data.pkl' is encrypted");
}

TEST(Hostile, EmptyNamesAreCorrupt) {
  Archive lie;
  put(lie.bytes, lie.directory + 28, std::uint16_t{0});
  put(lie.bytes, lie.directory + 30, static_cast<std::uint16_t>(lie.name_bytes));
  expect_failure(lie.bytes, ErrorKind::corrupt, "name is empty");
}

// An archive of `count` records, whose places and names the caller chooses.
template <class Name, class Place>
Bytes archive_of(std::size_t count, Name name, Place place) {
  ByteWriter file, central;
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const RecordPlace real = place_record(name(i).size(), 0, offset, 64);
    write_local_header(name(i), real, file);
    write_central_entry(name(i), place(real), 0, central);
    offset = real.end();
  }
  file.append(central.view());
  write_end(offset, central.size(), count, file);
  return file.take();
}

TEST(Hostile, NamesListedTwiceAreCorrupt) {
  for (const std::size_t count : {2U, 16U, 17U, 300U}) {
    const auto name = [&](std::size_t i) { return "m/" + std::to_string(i % (count - 1)); };
    expect_failure(archive_of(count, name, [](auto real) { return real; }), ErrorKind::corrupt,
                   "'m/0' is listed twice");
  }
}

TEST(Hostile, Zip64FieldsCannotWrapAround) {
  const auto name = [](std::size_t) { return std::string("m/0"); };
  for (const std::uint64_t value : {kMost, kMost - 33, kMost - 100, std::uint64_t{1} << 63}) {
    const auto size = [&](RecordPlace place) { return place.size = value, place; };
    const auto offset = [&](RecordPlace place) { return place.header_offset = value, place; };
    expect_failure(archive_of(1, name, size), ErrorKind::corrupt, "passes the directory");
    expect_failure(archive_of(1, name, offset), ErrorKind::corrupt, "passes the directory");
  }
}

TEST(Hostile, Zip64FieldMustHoldWhatIsMissing) {
  const auto name = [](std::size_t) { return std::string("m/0"); };
  Bytes archive = archive_of(1, name, [](RecordPlace place) { return place.size = kMost, place; });
  put(archive, archive.size() - 98 - 18, std::uint16_t{15});
  EXPECT_TRUE(failure(archive));
}

// The sizes are believed only as far as bytes arrive.
TEST(Hostile, StatedDirectorySizeCostsNoMemory) {
  const std::uint64_t size = std::uint64_t{1} << 50, directory = size - 98;
  ByteWriter end;
  write_end(0, directory, directory / 46, end);
  std::uint64_t largest = 0;
  const ReadAt read_at = [&](std::uint64_t offset, std::span<std::byte> into) {
    largest = std::max<std::uint64_t>(largest, into.size());
    if (offset + into.size() != size) throw Error(ErrorKind::io, "end of file");
    std::copy(end.view().begin(), end.view().end(), into.end() - 98);
  };
  EXPECT_THROW(read_directory(read_at, size, "archive"), Error);
  EXPECT_LE(largest, std::uint64_t{4} << 20);
}

}  // namespace
}  // namespace cairn::zip
