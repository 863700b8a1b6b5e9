// SPDX-License-Identifier: BSD-3-Clause
#include "base/byte_stream.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "failure_of.hpp"

namespace cairn {
namespace {

std::string letters(std::size_t count) {
  std::string text(count, ' ');
  for (std::size_t i = 0; i < count; ++i) text[i] = static_cast<char>('a' + i * 7 % 26);
  return text;
}

ByteStream::Read reads(const std::string& text) {
  return [&](std::uint64_t byte_offset, std::span<std::byte> into) {
    ASSERT_LE(byte_offset + into.size(), text.size());
    std::memcpy(into.data(), text.data() + byte_offset, into.size());
  };
}

TEST(ByteStream, HandsOutWhatTheBytesAreThroughWindowsOfAnySize) {
  const std::string text = letters(5000);
  for (const std::size_t window : {1, 2, 3, 7, 64, 1000, 5000, 100000}) {
    SCOPED_TRACE(window);
    ByteStream in(text.size(), reads(text), "test", window);
    std::mt19937 random(static_cast<unsigned>(window));
    std::size_t at = 0;
    while (at < text.size()) {
      ASSERT_EQ(in.position(), at);
      ASSERT_EQ(in.remaining(), text.size() - at);
      const std::size_t count = std::min<std::size_t>(random() % 90, text.size() - at);
      const auto next = in.peek(count + 3);
      EXPECT_EQ(next.size(), std::min(count + 3, text.size() - at));
      EXPECT_EQ(std::memcmp(next.data(), text.data() + at, next.size()), 0);
      EXPECT_EQ(in.text(count), text.substr(at, count));
      at += count;
    }
  }
}

TEST(ByteStream, ReadsEachByteOnce) {
  const std::string text = letters(1000);
  std::uint64_t read = 0;
  ByteStream in(
      text.size(),
      [&](std::uint64_t byte_offset, std::span<std::byte> into) {
        EXPECT_EQ(byte_offset, read);
        read += into.size();
        reads(text)(byte_offset, into);
      },
      "test", 16);
  for (int i = 0; i < 100; ++i) in.text(10);
  EXPECT_EQ(read, text.size());
}

TEST(ByteStream, LinesMayBeLongerThanTheWindow) {
  const std::string text = letters(40) + "\n\nb\n" + letters(70) + "\nrest";
  for (const std::size_t window : {1, 39, 40, 41, 42, 1000}) {
    ByteStream in(text.size(), reads(text), "test", window);
    EXPECT_EQ(in.line(), letters(40));
    EXPECT_EQ(in.line(), "");
    EXPECT_EQ(in.line(), "b");
    EXPECT_EQ(in.line(), letters(70));
    EXPECT_EQ(failure_of([&] { in.line(); }).message(), "test: byte 115: a line that does not end");
  }
}

TEST(ByteStream, ALengthBeyondTheEndIsRefusedBeforeMemoryIsTaken) {
  const std::string text = letters(10);
  ByteStream in(text.size(), reads(text), "test", 4);
  in.text(3);
  const Error error = failure_of([&] { in.text(std::uint64_t{1} << 60); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_EQ(error.message(), "test: 1152921504606846976 bytes expected at byte 3, 7 left");
  EXPECT_EQ(in.text(7), letters(10).substr(3));
}

}  // namespace
}  // namespace cairn
