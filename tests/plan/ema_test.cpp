// SPDX-License-Identifier: BSD-3-Clause
#include "plan/names/ema.hpp"

#include <gtest/gtest.h>

#include "failure_of.hpp"
#include "plan/names_fixture.hpp"

namespace cairn {
namespace {

TEST(Ema, PutsAveragedWeightsUnderTheNamesOfTheTrainedOnes) {
  NamedEntries entries{"net.a.w", "net_ema.a.w", "fake_score.a.w"};
  entries.add("net_ema.a.h", DType::float16)
      .add("net_ema.a.d", DType::float64)
      .add("net_ema.a.n", DType::int64);
  const NamePlan fp32 = plan_names(ema_fp32_rules(), entries.all(), true);
  const NamePlan bf16 = plan_names(ema_bf16_rules(), entries.all(), true);
  const std::vector<std::string_view> names = {"net.a.w", "net.a.h", "net.a.d", "net.a.n"};
  const std::vector<DType> types = {DType::float32, DType::float16, DType::float64, DType::int64};
  ASSERT_EQ(fp32.kept().size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(fp32.kept()[i].name, names[i]);
    EXPECT_EQ(path_text(fp32.kept()[i].path), names[i]);
    EXPECT_EQ(fp32.kept()[i].dtype, types[i]);
    EXPECT_EQ(bf16.kept()[i].dtype, i == 0 ? DType::bfloat16 : types[i]);
  }
}

TEST(Ema, ListsNamesWithoutCounterpart) {
  const NamedEntries entries{"net.a", "net.b", "net_ema.a", "net_ema.c", "net_emax.d", "optim.net.e"};
  const EmaGaps gaps = find_ema_gaps(entries.all());
  EXPECT_EQ(gaps.without_net, std::vector<std::string>{"net_ema.c"});
  EXPECT_EQ(gaps.without_ema, std::vector<std::string>{"net.b"});
}

TEST(Ema, IsNotFoundWhereNoNameHasIt) {
  const NamedEntries entries{"net.a", "net_ema"};
  const Error error = failure_of([&] { find_ema_gaps(entries.all()); });
  EXPECT_EQ(error.kind(), ErrorKind::not_found);
  EXPECT_TRUE(contains(error, "none of 2 names begins with 'net_ema.'"));
}

}  // namespace
}  // namespace cairn
