// SPDX-License-Identifier: BSD-3-Clause
// Memory that is lacking on one rank, at any moment of a load: everybody gets the error, nobody waits.
// A program of its own, as it replaces operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "cairn/load.hpp"
#include "failure_of.hpp"
#include "load_fixture.hpp"
#include "shared_directory.hpp"

namespace {

// Smaller ones are part of agreeing itself.
constexpr std::size_t kLeastBytes = 16 << 10;
std::atomic<long> allocations_left{-1};  // of that size, before one fails; below 0: none does

}  // namespace

// Not inlined: the compiler would see free() where new was called.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (bytes >= kLeastBytes && allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace cairn {
namespace {

constexpr std::int64_t kRows = 1500, kColumns = 550;

class Saved : public SharedDirectory {
 public:
  Saved()
      : SharedDirectory([](const TempDir& dir) {
          DcpFixture fixture;
          fixture.add({"a", DType::float32, {kRows, kColumns}, split({kRows, kColumns}, 0, 2)});
          for (int i = 0; i < 30; ++i)
            fixture.add({"s" + std::to_string(i), DType::int16, {4000}, {{{{0}, {4000}}}}});
          fixture.add_object("note", std::string(100'000, 'x'));  // a message of its own
          fixture.write(dir, "ckpt");
        }) {}
};

/// Columns of the large tensor, or all of it; all of the small ones.
void want(LoadTarget& target, bool columns) {
  const auto layout = columns ? TensorLayout::sharded({kRows, kColumns}, 1, world().size())
                              : TensorLayout::replicated({kRows, kColumns}, world().size());
  target.add("a", DType::float32, layout, columns ? MemoryKind::contiguous : MemoryKind::columns_first);
  for (int i = 0; i < 30; ++i) target.add("s" + std::to_string(i), DType::int16, {4000}, {{{0}, {4000}}});
  target.state().add_object("note", "");
}

/// Whether rank `bad` has run out of memory at its allocation `number`. Collective.
bool fails_at(const std::string& path, bool columns, int bad, long number) {
  LoadTarget target(world().rank());
  want(target, columns);
  LoadOptions options;
  options.read_once = ReadOnce::on;
  options.threads = 1 + static_cast<int>(number % 2);
  std::string what;
  allocations_left = world().rank() == bad ? number : -1;
  try {
    load(world(), posix_file_system(), path, target.state(), options);
  } catch (const Error& error) {
    what = error.what();
  }
  const bool was_lacking = allocations_left.exchange(-1) < 0 && world().rank() == bad;
  for (const Bytes& theirs : world().gather(as_bytes(what), 0)) EXPECT_EQ(as_text(theirs), what);
  if (what.empty())
    target.expect_iota();
  else
    EXPECT_NE(what.find("out of memory"), std::string::npos) << what;
  return agree(world(), was_lacking ? 1 : 0) != 0;
}

TEST(LackOfMemory, IsEverybodysFailureWheneverItComes) {
  const Saved saved;
  for (const bool columns : {false, true}) {
    for (int bad = 0; bad < world().size(); ++bad) {
      long number = 0;
      while (fails_at(saved.path() + "/ckpt", columns, bad, number)) ++number;
      EXPECT_GE(number, 2);
    }
  }
}

}  // namespace
}  // namespace cairn
