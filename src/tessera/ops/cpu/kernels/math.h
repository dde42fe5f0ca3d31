#pragma once

#include "tessera/ops/cpu/kernels/simd.h"

/// Elementary functions on vectors, within about 2 ulp; infinities and NaN behave as in <cmath>.
/// Polynomials were fitted at Chebyshev nodes in double precision; the largest relative error of each, rounding included, is noted at its
/// coefficients.
namespace tessera::ops::cpu::TESSERA_KERNEL_ISA {

/// c[0] + c[1] x + … by Horner's rule.
template <int N>
inline Vec polynomial(Vec x, const float (&c)[N]) {
  Vec result = broadcast(c[N - 1]);
  for (int i = N - 2; i >= 0; --i) result = result * x + c[i];
  return result;
}

/// x = n log 2 + r with integer n: returns exp(r) and n in the low bits of `shifted` (as an integer, offset by the bits of 1.5 · 2^23).
struct ReducedExp {
  Vec mantissa;
  IntVec exponent;
};
inline ReducedExp reduced_exp(Vec x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer held in the low mantissa bits
  const Vec shifted = x * 1.44269504f + kRound;
  const Vec n = shifted - kRound;
  const Vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  // (exp(r) - 1 - r) / r² on |r| <= log(2)/2: 7.4e-8
  constexpr float kExp[] = {0.500000001f, 0.16666577f, 0.041666465f, 0.0083631803f, 0.0013933652f};
  const Vec mantissa = (polynomial(r, kExp) * r) * r + r + 1.0f;
  return {mantissa, bit_cast<IntVec>(shifted) - 0x4B400000};
}
inline Vec power_of_two(IntVec exponent) { return bit_cast<Vec>((exponent + 127) << 23); }

inline Vec exp(Vec x) {
  const Vec bounded = select(x > 89.0f, broadcast(89.0f), select(x < -104.0f, broadcast(-104.0f), x));
  const ReducedExp parts = reduced_exp(bounded);
  // In two steps, as 2^128 and subnormal results are no single power of two.
  const IntVec half = parts.exponent >> 1;
  return parts.mantissa * power_of_two(half) * power_of_two(parts.exponent - half);
}

/// exp for x <= 0 (softmax): results below 1e-38 become 0.
inline Vec exp_nonpositive(Vec x) {
  const ReducedExp parts = reduced_exp(x);
  return select(x < -87.0f, Vec{}, parts.mantissa * power_of_two(parts.exponent));
}

inline Vec sigmoid(Vec x) { return 1.0f / (1.0f + exp(-x)); }

inline Vec absolute(Vec x) { return bit_cast<Vec>(bit_cast<UintVec>(x) & 0x7FFFFFFFu); }
inline Vec with_sign_of(Vec magnitude, Vec sign) { return bit_cast<Vec>(bit_cast<UintVec>(magnitude) | (bit_cast<UintVec>(sign) & 0x80000000u)); }

inline Vec tanh(Vec x) {
  const Vec magnitude = absolute(x);
  const Vec square = x * x;
  // (tanh(x)/x - 1) / x² on |x| <= 0.625: 8.3e-8
  constexpr float kTanh[] = {-0.33333329f, 0.13332783f, -0.053852497f, 0.021003642f, -0.006104948f};
  const Vec near = x + x * square * polynomial(square, kTanh);
  const Vec far = 1.0f - 2.0f / (1.0f + exp(magnitude + magnitude));
  return select(magnitude < 0.625f, near, with_sign_of(far, x));
}

inline Vec erf(Vec x) {
  const Vec magnitude = absolute(x);
  const Vec square = x * x;
  // erf(x)/x on |x| <= 1: 1.7e-7
  constexpr float kNear[] = {1.12837917f, -0.376126269f, 0.112835975f, -0.026854329f, 0.005189312f, -0.00080188550f, 7.88249712e-5f};
  // -log(erfc(x)) on [1, 4]; past 3.93 erf rounds to 1: 7.8e-8
  constexpr float kFar[] = {-0.000303212969f, 1.13016668f,     0.631937094f,   0.109978245f,   -0.0263647173f,
                            0.00474022234f,   -0.00059276954f, 4.55906224e-5f, -1.61406160e-6f};
  const Vec bounded = select(magnitude > 4.0f, broadcast(4.0f), magnitude);
  const Vec far = 1.0f - exp_nonpositive(-polynomial(bounded, kFar));
  return select(magnitude < 1.0f, x * polynomial(square, kNear), with_sign_of(far, x));
}

}  // namespace tessera::ops::cpu::TESSERA_KERNEL_ISA
