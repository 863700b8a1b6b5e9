// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <set>

#include "cairn/tensor.hpp"

namespace cairn {
namespace {

TEST(DType, EveryNameAndStorageClassLeadsBack) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(DType::bits16); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_TRUE(names.insert(info(dtype).name).second) << info(dtype).name;
    EXPECT_EQ(dtype_from_name(info(dtype).name), dtype);
    if (!info(dtype).storage_class.empty()) {
      EXPECT_EQ(dtype_from_storage_class(info(dtype).storage_class), dtype);
    }
  }
}

TEST(DType, NamesWithoutADenseLayoutAreUnknown) {
  for (const char* name : {"qint8", "quint4x2", "int4", "uint1", "torch.float32", "", "Float32", "boolean"}) {
    EXPECT_FALSE(dtype_from_name(name)) << name;
  }
  EXPECT_FALSE(dtype_from_storage_class("UntypedStorage"));
  EXPECT_FALSE(dtype_from_storage_class(""));
}

}  // namespace
}  // namespace cairn
