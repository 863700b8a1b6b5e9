// SPDX-License-Identifier: BSD-3-Clause
#include "base/text.hpp"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(UnescapeName, UndoesEscapeNameForEveryByte) {
  std::string name;
  for (int byte = 0; byte < 256; ++byte) name += static_cast<char>(byte);
  name += "\u00e9\u202ex\\x41";
  EXPECT_EQ(unescape_name(escape_name(name)), name);
  EXPECT_EQ(unescape_name("net.\u00e9 =#"), "net.\u00e9 =#");
}

TEST(UnescapeName, RefusesOtherBackslashes) {
  for (const char* text : {"\\", "a\\q", "\\x", "\\x4", "\\xg0", "\\x-1", "\\X41"})
    EXPECT_EQ(unescape_name(text), std::nullopt) << text;
}

TEST(EscapeName, TakesOneLineAndSteersNoTerminal) {
  EXPECT_EQ(escape_name("plain.weight"), "plain.weight");
  EXPECT_EQ(escape_name("a\tb\nc\rd\\e"), "a\\tb\\nc\\rd\\\\e");
  EXPECT_EQ(escape_name(std::string_view("\0\x1b[31m\x7f", 7)), "\\x00\\x1b[31m\\x7f");
  EXPECT_EQ(escape_name("\xc3\xbc\xf0\x9f\x98\x80"), "\xc3\xbc\xf0\x9f\x98\x80");
}

TEST(EscapeName, MarksThatTurnTheWritingDirectionAreEscaped) {
  EXPECT_EQ(escape_name("a\u202e"
                        "b"),
            "a\\xe2\\x80\\xaeb");
  EXPECT_EQ(escape_name("\u2066"), "\\xe2\\x81\\xa6");
  EXPECT_EQ(escape_name("\u2026\u2065"), "\u2026\u2065");
}

TEST(EscapeName, BytesThatAreNoUtf8AreEscapedOneByOne) {
  EXPECT_EQ(escape_name("\xff"), "\\xff");
  EXPECT_EQ(escape_name("a\xc3"), "a\\xc3");                  // cut short
  EXPECT_EQ(escape_name("\xc0\x80"), "\\xc0\\x80");           // overlong
  EXPECT_EQ(escape_name("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
}

TEST(ParseSize, KnowsDecimalAndBinaryUnits) {
  EXPECT_EQ(parse_size("0"), 0u);
  EXPECT_EQ(parse_size("1000"), 1000u);
  EXPECT_EQ(parse_size("5GB"), 5'000'000'000u);
  EXPECT_EQ(parse_size("64MiB"), 64u << 20);
  EXPECT_EQ(parse_size("1TiB"), std::uint64_t{1} << 40);
  EXPECT_EQ(parse_size("18446744073709551615"), 18446744073709551615u);
}

TEST(ParseSize, RefusesEverythingElse) {
  for (const char* text : {"", "MiB", "-1", "+1", " 1", "1 ", "1.5GB", "1XB", "0x10", "1e9", "1MiBs",
                           "18446744073709551616", "17000000TiB"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

}  // namespace
}  // namespace cairn
