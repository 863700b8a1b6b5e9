// SPDX-License-Identifier: BSD-3-Clause
#include "tensor/cast.hpp"

#include "base/fail.hpp"
#include "tensor/cast_loops.hpp"

namespace cairn {
namespace {

bool is_source(DType dtype) { return dtype == DType::float64 || is_cast_target(dtype); }

CastCode best_code() {
  static const CastCode code = cast_codes().back();
  return code;
}

}  // namespace

bool is_cast_target(DType dtype) {
  return dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16;
}

bool can_cast(DType from, DType to) { return is_source(from) && is_cast_target(to); }

bool may_round(DType from, DType to) {
  return from != to && (to != DType::float32 || from == DType::float64);
}

void require_cast(DType from, DType to) {
  if (!is_cast_target(to)) {
    fail(ErrorKind::invalid_argument, "no casts to {}: float32, float16 or bfloat16 expected", info(to).name);
  }
  if (!is_source(from)) {
    fail(ErrorKind::unsupported, "no cast from {} to {}: float64, float32, float16 or bfloat16 expected",
         info(from).name, info(to).name);
  }
}

void cast(std::span<std::byte> target, DType to, std::span<const std::byte> source, DType from) {
  require_cast(from, to);
  const std::size_t elements = source.size() / element_size(from);
  if (source.size() % element_size(from) != 0 || target.size() / element_size(to) != elements ||
      target.size() % element_size(to) != 0) {
    fail(ErrorKind::invalid_argument, "cast of {} bytes of {} into {} bytes of {}", source.size(),
         info(from).name, target.size(), info(to).name);
  }
  best_code().cast(target.data(), to, source.data(), from, elements);
}

std::vector<CastCode> cast_codes() {
  std::vector<CastCode> codes = {{"any", cast_plain}};
#ifdef __x86_64__
  if (has_avx2_and_f16c()) codes.push_back({"avx2", cast_avx2});
#endif
  return codes;
}

}  // namespace cairn
