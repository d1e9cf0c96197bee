// Private: eight floats at a time with AVX2 and FMA. The including file brings the intrinsics.
#pragma once

#include <cstdint>

namespace sightline::cpu {
namespace {

struct Avx2 {
  using Vec = __m256;
  typedef uint32_t Bits __attribute__((vector_size(32)));
  static constexpr int kLanes = 8;
  // 6 rows x 2 vectors of sums, 2 of weights and 1 of x: 15 of 16 registers.
  static constexpr int kPanelVectors = 2;

  static Vec Set(float value) { return _mm256_set1_ps(value); }
  static Vec MulAdd(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  // b where either is not a number.
  static Vec Max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
};

}  // namespace
}  // namespace sightline::cpu
