// SPDX-License-Identifier: BSD-3-Clause
#include "device/shared_library.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "cairn/device.hpp"
#include "failure_of.hpp"

namespace cairn {
namespace {

constexpr const char* kMissing[] = {"libcairn-no-such-a.so.3", "libcairn-no-such-b.so"};
constexpr const char* kLoadedLast[] = {"libutil.so.1", "libm.so.6"};  // the second: with this program
constexpr const char* kMaths[] = {"libcairn-no-such.so", "libm.so.6"};

TEST(SharedLibrary, ThatIsMissingIsUnsupportedWithWhatWasLookedForAndTheLoadersWords) {
  const Error error = failure_of([] { SharedLibrary("the sea", "CAIRN_TEST_SEA", kMissing); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  for (const char* part : {"the sea", kMissing[0], kMissing[1], "cannot open shared object file"})
    EXPECT_TRUE(contains(error, part)) << error.what();
  EXPECT_NE(error.hint().find("CAIRN_TEST_SEA"), std::string::npos);
}

TEST(SharedLibrary, IsTheFirstThatIsThere) {
  const SharedLibrary library("mathematics", "CAIRN_TEST_SEA", kMaths);
  double (*cosine)(double) = nullptr;
  library.find("cos", cosine);
  EXPECT_EQ(cosine(0), 1);
}

TEST(SharedLibrary, IsRatherOneThatIsLoadedAlready) {
  const SharedLibrary library("mathematics", "CAIRN_TEST_SEA", kLoadedLast);
  double (*cosine)(double) = nullptr;
  library.find("cos", cosine);
  EXPECT_EQ(cosine(0), 1);
}

TEST(SharedLibrary, WithoutAFunctionIsUnsupported) {
  const SharedLibrary library("mathematics", "CAIRN_TEST_SEA", kMaths);
  void (*function)() = nullptr;
  const Error error = failure_of([&] { library.find("cairn_no_such_function", function); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  EXPECT_TRUE(contains(error, "libm.so.6") && contains(error, "cairn_no_such_function")) << error.what();
}

TEST(SharedLibrary, MayBeNamedByTheEnvironment) {
  setenv("CAIRN_TEST_SEA", "libcairn-chosen.so", 1);
  const Error error = failure_of([] { SharedLibrary("mathematics", "CAIRN_TEST_SEA", kMaths); });
  unsetenv("CAIRN_TEST_SEA");
  EXPECT_TRUE(contains(error, "libcairn-chosen.so")) << error.what();
  EXPECT_FALSE(contains(error, "libm.so.6")) << error.what();
}

TEST(CudaMemory, WithoutTheRuntimeIsUnsupportedAtTheCall) {
  setenv("CAIRN_CUDART", "libcairn-no-cudart.so", 1);
  const Error error = failure_of([] { cuda_memory(0); });
  unsetenv("CAIRN_CUDART");
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  EXPECT_TRUE(contains(error, "CUDA runtime") && contains(error, "libcairn-no-cudart.so")) << error.what();
}

}  // namespace
}  // namespace cairn
