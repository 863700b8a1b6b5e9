// SPDX-License-Identifier: BSD-3-Clause
// More than 2^31 elements, more than 2 GiB in one item: sparse on disk, whole in memory. Label slow.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/crc32.hpp"
#include "cairn/load.hpp"
#include "checkpoint/process_memory.hpp"
#include "formats/dcp/item_writer.hpp"
#include "formats/dcp/metadata_encoder.hpp"
#include "temp_dir.hpp"

namespace cairn {
namespace {

constexpr std::int64_t kRows = (1 << 16) + 3, kColumns = (1 << 15) + 1;
constexpr std::int64_t kElements = kRows * kColumns;
static_assert(kElements > (std::int64_t{1} << 31));

/// Bytes that are not 0, by the elements' linear indices: around 2^31, at the ends, in the last columns.
std::vector<std::int64_t> marked() {
  constexpr std::int64_t middle = std::int64_t{1} << 31;
  std::vector<std::int64_t> at{0,      1,          kColumns - 1,  middle - 1,
                               middle, middle + 1, kElements - 2, kElements - 1};
  for (std::int64_t row = 5; row < kRows; row += 7919) at.push_back(row * kColumns + kColumns - 1 - row % 16);
  std::ranges::sort(at);
  return at;
}
std::byte mark(std::int64_t at) { return static_cast<std::byte>(1 + at % 251); }

std::uint32_t payload_crc() {
  constexpr std::int64_t piece = 1 << 20;
  Bytes zeros(piece, std::byte{0});
  const auto marks = marked();
  std::uint32_t crc = 0;
  for (std::int64_t begin = 0; begin < kElements; begin += piece) {
    const auto here = std::span(zeros).first(static_cast<std::size_t>(std::min(piece, kElements - begin)));
    for (const std::int64_t at : marks)
      if (at >= begin && at < begin + piece) here[static_cast<std::size_t>(at - begin)] = mark(at);
    crc = crc32(here, crc);
    for (const std::int64_t at : marks)
      if (at >= begin && at < begin + piece) here[static_cast<std::size_t>(at - begin)] = std::byte{0};
  }
  return crc;
}

void write_sparse(const TempDir& dir) {
  const std::vector<std::int64_t> shape{kRows, kColumns};
  const dcp::TensorItem item(DType::uint8, shape);
  std::ofstream out(dir.write("ckpt/__0_0.distcp", ""), std::ios::binary);
  const auto put = [&](std::uint64_t at, std::span<const std::byte> bytes) {
    out.seekp(static_cast<std::streamoff>(at));
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  };
  put(0, item.head());
  for (const std::int64_t at : marked()) {
    const std::byte value = mark(at);
    put(item.payload_offset() + static_cast<std::uint64_t>(at), {&value, 1});
  }
  Bytes tail(item.tail_bytes());
  item.write_tail(payload_crc(), tail);
  put(item.payload_offset() + item.payload_bytes(), tail);
  Catalog catalog;
  const auto file = catalog.add_file("__0_0.distcp");
  catalog.add_tensor(catalog.add_string("large"), DType::uint8, shape);
  catalog.add_chunk(Box{{0, 0}, shape}, file, 0, item.byte_length());
  std::ofstream metadata(dir / "ckpt/.metadata", std::ios::binary);
  dcp::encode_metadata(catalog, {"made", "00000000-0000-0000-0000-000000000000"}, {},
                       [&](std::span<const std::byte> piece) { metadata << as_text(piece); });
}

class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(at);
    std::memset(data_, 0xcd, bytes);
  }
  ~Memory() { munmap(data_, bytes_); }
  std::byte* data() { return data_; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

void expect_marks(std::span<const std::byte> bytes, const std::function<std::int64_t(std::size_t)>& index_of,
                  std::size_t expected_marks) {
  const auto marks = marked();
  std::size_t found = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == std::byte{0}) continue;
    const std::int64_t at = index_of(i);
    ASSERT_TRUE(std::ranges::binary_search(marks, at) && bytes[i] == mark(at)) << "element " << at;
    ++found;
  }
  EXPECT_EQ(found, expected_marks);
}

TEST(LoadLarge, MoreThanTwoToThe31ElementsInOneItem) {
  TempDir dir;
  write_sparse(dir);
  const auto solo = solo_communicator();
  const std::vector<std::int64_t> shape{kRows, kColumns};
  Memory memory(kElements);
  const std::uint64_t before = peak_rss_bytes();
  LiveState state(0);
  state.add_tensor("large", TensorLayout::replicated(shape, 1),
                   TensorView::contiguous(DType::uint8, shape, memory.data()));
  const LoadReport report = load(*solo, posix_file_system(), dir / "ckpt", state);
  EXPECT_EQ(report.verified_bytes, static_cast<std::uint64_t>(kElements));
  EXPECT_LE(report.peak_rss_bytes, before + (64 << 20));
  expect_marks(
      {memory.data(), static_cast<std::size_t>(kElements)},
      [](std::size_t i) { return static_cast<std::int64_t>(i); }, marked().size());
}

TEST(LoadLarge, ColumnsOfIt) {
  TempDir dir;
  write_sparse(dir);
  const auto solo = solo_communicator();
  constexpr std::int64_t width = 16, first = kColumns - width;
  Bytes bytes(kRows * width, std::byte{0xcd});
  const std::vector<std::int64_t> shape{kRows, kColumns};
  const LiveState::LocalBox box{{{0, first}, {kRows, width}},
                                TensorView::contiguous(DType::uint8, {kRows, width}, bytes.data())};
  LiveState state(0);
  state.add_tensor("large", DType::uint8, shape, std::span(&box, 1));
  const LoadReport report = load(*solo, posix_file_system(), dir / "ckpt", state);
  EXPECT_LT(report.read_bytes, 8u * kRows * width) << "rows of 32 KiB are not read for 16 bytes";
  const auto in_box = [&](std::int64_t at) { return at % kColumns >= first; };
  expect_marks(
      bytes,
      [&](std::size_t i) {
        return static_cast<std::int64_t>(i) / width * kColumns + first + static_cast<std::int64_t>(i) % width;
      },
      static_cast<std::size_t>(std::ranges::count_if(marked(), in_box)));
}

}  // namespace
}  // namespace cairn
