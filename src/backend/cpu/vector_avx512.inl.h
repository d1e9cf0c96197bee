// Private: sixteen floats at a time with AVX-512, and its bfloat16 arithmetic. The including file brings the
// intrinsics.
#pragma once

#include <cstdint>

namespace sightline::cpu {
namespace {

struct Avx512 {
  using Vec = __m512;
  typedef uint32_t Bits __attribute__((vector_size(64)));
  static constexpr int kLanes = 16;
  // 6 rows x 4 vectors of sums, 4 of weights and 1 of x: 29 of 32 registers.
  static constexpr int kPanelVectors = 4;

  static Vec Set(float value) { return _mm512_set1_ps(value); }
  static Vec MulAdd(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  // b where either is not a number.
  // (g++ 12 warns about its own header in the form without a mask.)
  static Vec Max(Vec a, Vec b) { return _mm512_maskz_max_ps(0xffff, a, b); }
};

struct Avx512BF16 : Avx512 {
  typedef uint16_t Half __attribute__((vector_size(32)));  // 16 bfloat16 numbers

  static Bits SetPair(uint32_t pair) { return (Bits)_mm512_set1_epi32(static_cast<int>(pair)); }
  // sum + a.low * b.low + a.high * b.high in every 32-bit lane.
  static Vec DotPairs(Bits a, Bits b, Vec sum) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }
  static Half Narrow(Vec v) { return (Half)_mm512_cvtneps_pbh(v); }
};

}  // namespace
}  // namespace sightline::cpu
