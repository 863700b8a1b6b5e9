// SPDX-License-Identifier: BSD-3-Clause
#include "zip/torch_layout.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "base/crc32.hpp"
#include "cairn/error.hpp"
#include "zip/directory.hpp"
#include "zip/golden.hpp"

namespace cairn::zip {
namespace {

constexpr std::uint64_t kCutBytes = 1 << 20;  // longer payloads are not in a skeleton

struct Record {
  std::string name;
  std::uint32_t crc;
  std::uint64_t size;
  Bytes payload;  // empty where it is cut
};

// The records of a torch file from which the payloads of kCutBytes and more were cut.
std::vector<Record> records_of(std::span<const std::byte> file, std::uint64_t cut) {
  Directory directory;
  EXPECT_TRUE(read_directory(file, file.size() + cut, "golden", directory));
  std::vector<Record> records;
  std::uint64_t cut_so_far = 0;
  for (const Entry& entry : directory.entries) {
    const auto header = file.subspan(entry.header_offset - cut_so_far);
    const auto payload = 30 + entry.name.size() + static_cast<unsigned char>(header[28]) +
                         (static_cast<std::size_t>(header[29]) << 8);
    const bool is_cut = entry.size >= kCutBytes;
    const auto bytes = header.subspan(payload, is_cut ? 0 : entry.size);
    records.push_back({std::string(entry.name), entry.crc, entry.size, {bytes.begin(), bytes.end()}});
    if (is_cut) cut_so_far += entry.size;
  }
  EXPECT_EQ(cut_so_far, cut);
  return records;
}

std::string without_prefix(const std::string& name) { return name.substr(name.find('/') + 1); }

// The whole file from names, CRCs and payloads alone; the last record is the serialization id.
Bytes regenerate(std::vector<Record> records, std::uint32_t alignment) {
  SerializationId id;
  for (std::size_t i = 0; i + 1 < records.size(); ++i) {
    id.add(without_prefix(records[i].name), records[i].crc, records[i].size);
  }
  const std::string digits = id.digits();
  records.back().payload = {as_bytes(digits).begin(), as_bytes(digits).end()};

  ByteWriter file, directory;
  std::uint64_t offset = 0;
  for (const Record& record : records) {
    const RecordPlace place = place_record(record.name.size(), record.size, offset, alignment);
    write_local_header(record.name, place, file);
    file.append(record.payload);
    write_descriptor(place, record.crc, file);
    const std::size_t before = directory.size();
    write_central_entry(record.name, place, record.crc, directory);
    EXPECT_EQ(directory.size() - before, central_entry_bytes(record.name.size(), place));
    offset = place.end();
  }
  file.append(directory.view());
  const std::size_t before = file.size();
  write_end(offset, directory.size(), records.size(), file);
  EXPECT_EQ(file.size() - before, kEndRecordsBytes);
  return file.take();
}

struct Golden {
  const char* file;
  std::uint32_t alignment;
  std::uint64_t cut;
};

class SameBytesAsTorch : public testing::TestWithParam<Golden> {};

TEST_P(SameBytesAsTorch, FromNamesPayloadsAndCrcs) {
  const Bytes expected = golden(GetParam().file);
  const auto records = records_of(expected, GetParam().cut);
  EXPECT_TRUE(regenerate(records, GetParam().alignment) == expected);
}

constexpr std::uint64_t kWide = 0xffffffff;
INSTANTIATE_TEST_SUITE_P(Files, SameBytesAsTorch,
                         testing::Values(Golden{"empty_dict.pth", 64, 0}, Golden{"one tensor.v1.pth", 64, 0},
                                         Golden{"several.pth", 64, 0}, Golden{"aligned_1024.pth", 1024, 0},
                                         Golden{"no_crc.pth", 64, 0}, Golden{"thirty.pth", 64, 0}));
INSTANTIATE_TEST_SUITE_P(Around4GiB, SameBytesAsTorch,
                         testing::Values(Golden{"size_below_wide.skeleton", 64, kWide - 1},
                                         Golden{"size_wide.skeleton", 64, kWide},
                                         Golden{"header_below_wide.skeleton", 64, kWide - 849},
                                         Golden{"header_wide.skeleton", 64, kWide - 848},
                                         Golden{"two_wide.skeleton", 64, 2 * (kWide + 1) + 65}));

TEST(TorchLayout, KeepsTheArchiveNameOfTheFile) {
  for (const std::string file : {"empty_dict.pth", "one tensor.v1.pth"}) {
    const Bytes bytes = golden(file);
    Directory directory;
    ASSERT_TRUE(read_directory(bytes, bytes.size(), file, directory));
    EXPECT_EQ(archive_prefix(directory, file), archive_name("some.folder/" + file));
  }
}

// As torch.save named them, but for the hidden ones.
TEST(TorchLayout, NamesTheArchiveAsTorchDoes) {
  EXPECT_EQ(archive_name("noext"), "noext");
  EXPECT_EQ(archive_name("dir.d/noext"), "noext");
  EXPECT_EQ(archive_name("a b.ckpt.x"), "a b.ckpt");
  EXPECT_EQ(archive_name("x."), "x");
  EXPECT_EQ(archive_name("..y"), ".");
  EXPECT_EQ(archive_name("a\\b.pt"), "b");
  EXPECT_EQ(archive_name("q\"w.pt"), "q\"w");
  EXPECT_EQ(archive_name("\xc3\xa9/a.pt"), "archive");
  EXPECT_EQ(archive_name("dir.d/.hidden"), "archive");
}

class ManyRecords : public testing::TestWithParam<int> {};

// Digests of torch's own files: see make_golden.py.
TEST_P(ManyRecords, GiveTheSameBytesAsTorch) {
  const Bytes table = golden("many.txt");
  std::istringstream lines{std::string(as_text(table))};
  std::uint64_t count = 0, pickle_bytes = 0, file_bytes = 0;
  std::uint32_t pickle_crc = 0, rest_crc = 0;
  for (int line = 0; line <= GetParam(); ++line) {
    lines >> count >> pickle_bytes >> pickle_crc >> file_bytes >> rest_crc;
  }
  const auto text = [](std::string name, std::string_view content) {
    const auto bytes = as_bytes(content);
    return Record{"archive/" + name, crc32(bytes), bytes.size(), {bytes.begin(), bytes.end()}};
  };
  std::vector<Record> records{{"archive/data.pkl", pickle_crc, pickle_bytes, {}},
                              text(".format_version", "1"),
                              text(".storage_alignment", "64"),
                              text("byteorder", "little")};
  for (std::uint64_t i = 0; i < count; ++i) {
    records.push_back(text("data/" + std::to_string(i), std::string(1, static_cast<char>(i % 256))));
  }
  records.push_back(text("version", "3\n"));
  SerializationId id;
  for (const Record& record : records) id.add(without_prefix(record.name), record.crc, record.size);
  records.push_back(text(".data/serialization_id", id.digits()));

  const Bytes file = regenerate(records, 64);
  EXPECT_EQ(file.size() + pickle_bytes, file_bytes);
  EXPECT_EQ(crc32(file), rest_crc);
}

INSTANTIATE_TEST_SUITE_P(Around65535, ManyRecords, testing::Values(0, 1));

TEST(PlaceRecord, PadsToTheNextMultipleOfTheAlignment) {
  for (const std::uint32_t alignment : {64U, 4096U, 32768U}) {
    const std::uint64_t bare = 30 + 4;
    const std::size_t exact = 64 - bare;
    EXPECT_EQ(place_record(exact, 1, alignment - 64, alignment).payload_offset, alignment);
    EXPECT_EQ(place_record(exact + 1, 1, alignment - 64, alignment).payload_offset, 2 * alignment);
    EXPECT_EQ(place_record(exact - 1, 1, alignment - 64, alignment).payload_offset, alignment);
  }
}

TEST(PlaceRecord, RefusesAlignmentsThatThePadCannotHold) {
  for (const std::uint32_t alignment : {0U, 32U, 96U, 65536U}) {
    EXPECT_THROW(place_record(10, 1, 0, alignment), Error) << alignment;
  }
  EXPECT_THROW(place_record(65536, 1, 0, 64), Error);
}

}  // namespace
}  // namespace cairn::zip
