// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "failure_of.hpp"
#include "formats/torch_file/layout.hpp"
#include "formats/torch_file/tensor_value.hpp"

namespace cairn::torch_file {
namespace {

using pickle::Arena;
using pickle::Construct;
using pickle::Value;

// Four broadcast chunks of 2^62 bytes each would make a file of a few hundred bytes.
TEST(TorchFileLimits, AnOutputWhoseSizeWrapsIsRefused) {
  const std::vector<std::uint64_t> sizes(4, std::uint64_t{1} << 62);
  const Error error = failure_of([&] { Layout("archive", 100, sizes, 64); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
}

Value sized_tensor(Arena& arena, const std::vector<std::int64_t>& sizes, Value flags) {
  const std::vector<Value> id{arena.string("storage"), arena.global("torch", "ComplexFloatStorage"),
                              arena.string("0"), arena.string("cpu"), arena.integer(1)};
  std::vector<Value> shape, zeros;
  for (const std::int64_t size : sizes) {
    shape.push_back(arena.integer(size));
    zeros.push_back(arena.integer(0));
  }
  const std::vector<Value> args{arena.persistent(arena.tuple(id)),
                                arena.integer(0),
                                arena.tuple(shape),
                                arena.tuple(zeros),
                                arena.boolean(false),
                                arena.none(),
                                flags};
  return arena.object(Construct::reduce, arena.global("torch._utils", "_rebuild_tensor_v2"),
                      arena.tuple(args));
}

Value flagged_tensor(Arena& arena, Value flags) { return sized_tensor(arena, {1}, flags); }

// One element of a storage, shown often enough.
TEST(TorchFileLimits, ATensorWhoseBytesOrStridesCannotBeCountedIsDamage) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 60;
  for (const auto& sizes :
       std::vector<std::vector<std::int64_t>>{{kHuge}, {kHuge, kHuge}, {0, kHuge, kHuge}, {kHuge / 8, 8}}) {
    Arena arena;
    const Value tensor = sized_tensor(arena, sizes, arena.none());
    EXPECT_EQ(failure_of([&] { decode_tensor(arena, tensor); }).kind(), ErrorKind::corrupt);
  }
  Arena arena;
  EXPECT_TRUE(decode_tensor(arena, sized_tensor(arena, {kHuge / 2}, arena.none())));
}

TEST(TorchFileLimits, FlagsThatArePlacedInAnotherMappingAreRefused) {
  Arena arena;
  const Value flags =
      arena.object(Construct::reduce, arena.global("collections", "OrderedDict"), arena.tuple({}));
  arena.set_item(flags, arena.string("conj"), arena.boolean(true));
  const Value tensor = flagged_tensor(arena, flags);
  EXPECT_EQ(failure_of([&] { decode_tensor(arena, tensor); }).kind(), ErrorKind::unsupported);
  EXPECT_TRUE(decode_tensor(arena, flagged_tensor(arena, arena.none())));
  EXPECT_TRUE(decode_tensor(arena, flagged_tensor(arena, arena.dict())));
}

}  // namespace
}  // namespace cairn::torch_file
