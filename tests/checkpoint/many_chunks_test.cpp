// SPDX-License-Identifier: BSD-3-Clause
// 2^20 chunks, all of one stored item: grids that are tall, wide and square.
#include <gtest/gtest.h>

#include "cairn/checkpoint.hpp"
#include "dcp_fixture.hpp"
#include "formats/torch_file/archive.hpp"

namespace cairn {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t kSide = 64;
#else
constexpr std::int64_t kSide = 1024;
#endif

void write_grid(const TempDir& dir, std::int64_t rows, std::int64_t columns) {
  DcpFixture fixture;
  fixture.add_repeated("grid", rows, columns, 2, 4);
  fixture.write(dir, "source");
}

void expect_listed(std::int64_t rows, std::int64_t columns) {
  TempDir dir;
  write_grid(dir, rows, columns);
  const Catalog catalog = list_checkpoint(posix_file_system(), dir / "source").catalog;
  ASSERT_EQ(catalog.chunks().size(), static_cast<std::size_t>(kSide * kSide));
  const TensorInfo& tensor = catalog.tensors()[0];
  const BoxView last = catalog.box(tensor, catalog.chunks().back());
  EXPECT_EQ(last.offsets[0], (rows - 1) * 2);
  EXPECT_EQ(last.offsets[1], (columns - 1) * 4);

  VerifyOptions options;
  options.path = dir / "source";
  options.metadata_only = true;
  const auto comm = solo_communicator();
  EXPECT_TRUE(verify(*comm, posix_file_system(), options).faults.empty());
}

TEST(ManyChunks, TallAndWideGridsAreListedAndTile) {
  expect_listed(kSide * kSide, 1);
  expect_listed(1, kSide * kSide);
}

TEST(ManyChunks, ASquareGridIsConsolidated) {
  TempDir dir;
  write_grid(dir, kSide, kSide);
  ConsolidateOptions options;
  options.source = dir / "source";
  options.destination = dir / "out.pth";
  options.sync = false;
  options.threads = 2;
  const auto comm = solo_communicator();
  consolidate(*comm, posix_file_system(), options);

  const std::string file = dir.read("out.pth");
  const auto bytes = as_bytes(file);
  const zip::ReadAt read = [&](std::uint64_t at, std::span<std::byte> into) {
    std::memcpy(into.data(), bytes.data() + at, into.size());
  };
  const torch_file::Archive archive(read, file.size(), "output");
  const auto record = archive.storage("0", 0);
  const auto payload = bytes.subspan(record.byte_offset, record.size);
  ASSERT_EQ(payload.size(), static_cast<std::size_t>(kSide * kSide * 8));
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < payload.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(kSide * 4),
                      column = i % static_cast<std::size_t>(kSide * 4);
    wrong += payload[i] != static_cast<std::byte>(row % 2 * 4 + column % 4);
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(crc32(payload), record.crc);
}

}  // namespace
}  // namespace cairn
