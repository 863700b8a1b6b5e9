// SPDX-License-Identifier: BSD-3-Clause
#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>

#include "tensor/cast_loops.hpp"
#include "tensor/float_formats.hpp"

#define CAIRN_AVX2 [[gnu::target("avx2,f16c")]] inline

// Nothing here depends on MXCSR: integers, and the two conversions of F16C, which take the rounding mode from
// the instruction and have exact or flushed-anyway results for subnormal input.
namespace cairn {
namespace {

CAIRN_AVX2 __m256i load(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(from));
}
CAIRN_AVX2 __m128i load_half(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i_u*>(from));
}
CAIRN_AVX2 void store(std::byte* to, __m256i x) { _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(to), x); }
CAIRN_AVX2 void store_half(std::byte* to, __m128i x) {
  _mm_storeu_si128(reinterpret_cast<__m128i_u*>(to), x);
}

// --- float64: narrow() of float_formats.hpp, four at a time ------------------------------------------------

CAIRN_AVX2 __m256i all64(std::uint64_t x) { return _mm256_set1_epi64x(static_cast<long long>(x)); }

// value, shifted right by 1 to 63 bits, to nearest even.
CAIRN_AVX2 __m256i shift_to_nearest_even(__m256i value, __m256i shift) {
  const __m256i one = all64(1);
  const __m256i half = _mm256_sllv_epi64(one, _mm256_sub_epi64(shift, one));
  const __m256i odd = _mm256_and_si256(_mm256_srlv_epi64(value, shift), one);
  const __m256i add = _mm256_add_epi64(_mm256_sub_epi64(half, one), odd);
  return _mm256_srlv_epi64(_mm256_add_epi64(value, add), shift);
}

template <class To>
CAIRN_AVX2 __m256i narrow_float64(__m256i x) {
  constexpr std::uint64_t drop = Float64::kMantissa - To::kMantissa, rebias = Float64::kBias - To::kBias;
  constexpr std::uint64_t hidden = std::uint64_t{1} << Float64::kMantissa;
  const __m256i magnitude = _mm256_and_si256(x, all64(~Float64::kSign)), infinity = all64(To::kInfinity);
  const __m256i sign = _mm256_srli_epi64(_mm256_and_si256(x, all64(Float64::kSign)), 64 - To::kWidth);
  const __m256i exponent = _mm256_srli_epi64(magnitude, Float64::kMantissa);
  const __m256i fraction = _mm256_and_si256(magnitude, all64(hidden - 1));

  const __m256i is_small = _mm256_cmpgt_epi64(all64(rebias + 1), exponent);
  const __m256i wanted = _mm256_sub_epi64(all64(drop + rebias + 1), exponent);
  const __m256i deep = _mm256_blendv_epi8(wanted, all64(63), _mm256_cmpgt_epi64(wanted, all64(63)));
  const __m256i shift = _mm256_blendv_epi8(all64(drop), deep, is_small);
  const __m256i rebased = _mm256_sub_epi64(magnitude, all64(rebias << Float64::kMantissa));
  const __m256i value = _mm256_blendv_epi8(rebased, _mm256_or_si256(fraction, all64(hidden)), is_small);
  const __m256i rounded = shift_to_nearest_even(value, shift);

  const __m256i finite = _mm256_blendv_epi8(rounded, infinity, _mm256_cmpgt_epi64(rounded, infinity));
  const __m256i nan = _mm256_or_si256(_mm256_srli_epi64(fraction, drop), all64(To::kInfinity | To::kQuiet));
  const __m256i is_nan = _mm256_cmpgt_epi64(magnitude, all64(Float64::kInfinity));
  return _mm256_or_si256(sign, _mm256_blendv_epi8(finite, nan, is_nan));
}

CAIRN_AVX2 __m128i low_halves(__m256i x) {
  return _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)));
}

template <class To>
CAIRN_AVX2 void eight_float64(std::byte* target, const std::byte* source) {
  const __m128i first = low_halves(narrow_float64<To>(load(source)));
  const __m128i second = low_halves(narrow_float64<To>(load(source + 32)));
  if constexpr (To::kWidth == 32) {
    store_half(target, first);
    store_half(target + 16, second);
  } else {
    store_half(target, _mm_packus_epi32(first, second));
  }
}

// --- the others: eight float32 in the middle
// ----------------------------------------------------------------

CAIRN_AVX2 __m256i all32(std::uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }

template <class From>
CAIRN_AVX2 __m256i eight_float32(const std::byte* source) {
  if constexpr (From::kWidth == 32) {
    return load(source);
  } else if constexpr (std::is_same_v<From, Float16>) {
    return _mm256_castps_si256(_mm256_cvtph_ps(load_half(source)));
  } else {
    const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half(source)), 16);
    const __m256i magnitude = _mm256_and_si256(wide, all32(~Float32::kSign));
    const __m256i is_nan = _mm256_cmpgt_epi32(magnitude, all32(Float32::kInfinity));
    return _mm256_or_si256(wide, _mm256_and_si256(is_nan, all32(Float32::kQuiet)));
  }
}

// To bfloat16, in the lower halves of the lanes.
CAIRN_AVX2 __m256i round_to_bfloat16(__m256i x) {
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), all32(1));
  const __m256i rounded = _mm256_add_epi32(x, _mm256_add_epi32(odd, all32(0x7fff)));
  const __m256i magnitude = _mm256_and_si256(x, all32(~Float32::kSign));
  const __m256i is_nan = _mm256_cmpgt_epi32(magnitude, all32(Float32::kInfinity));
  const __m256i nan = _mm256_or_si256(x, all32(Float32::kQuiet));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, nan, is_nan), 16);
}

template <class To>
CAIRN_AVX2 void put_eight(std::byte* target, __m256i x) {
  if constexpr (To::kWidth == 32) {
    store(target, x);
  } else if constexpr (std::is_same_v<To, Float16>) {
    store_half(target, _mm256_cvtps_ph(_mm256_castsi256_ps(x), _MM_FROUND_TO_NEAREST_INT));
  } else {
    const __m256i lanes = round_to_bfloat16(x);
    store_half(target, _mm_packus_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1)));
  }
}

template <class From, class To>
CAIRN_AVX2 std::size_t convert_eights(std::byte* target, const std::byte* source, std::size_t elements) {
  std::size_t i = 0;
  for (; i + 8 <= elements; i += 8) {
    std::byte* const out = target + i * sizeof(typename To::Bits);
    const std::byte* const in = source + i * sizeof(typename From::Bits);
    if constexpr (From::kWidth == 64)
      eight_float64<To>(out, in);
    else
      put_eight<To>(out, eight_float32<From>(in));
  }
  return i;
}

}  // namespace

bool has_avx2_and_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

void cast_avx2(std::byte* target, DType to, const std::byte* source, DType from, std::size_t elements) {
  with_formats(from, to, [&]<class From, class To>(From, To) {
    std::size_t done = 0;
    if constexpr (!std::is_same_v<From, To>) done = convert_eights<From, To>(target, source, elements);
    convert_all<From, To>(target, source, done, elements);
  });
}

}  // namespace cairn
#endif
