// Private: eight floats at a time with AVX2 and FMA. The including file brings the intrinsics.
#pragma once

#include <cstdint>

namespace sightline::cpu {
namespace {

struct Avx2 {
  using Vec = __m256;
  typedef uint32_t Bits __attribute__((vector_size(32)));
  typedef int32_t Ints __attribute__((vector_size(32)));
  static constexpr int kLanes = 8;
  // 6 rows x 2 vectors of sums, 2 of weights and 1 of x: 15 of 16 registers.
  static constexpr int kPanelVectors = 2;

  static Vec Set(float value) { return _mm256_set1_ps(value); }
  static Vec MulAdd(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  // b where either is not a number.
  static Vec Max(Vec a, Vec b) { return _mm256_max_ps(a, b); }

  // Integers: see vector_math.inl.h for what each does.
  static Ints SetInts(int32_t value) { return (Ints)_mm256_set1_epi32(value); }
  static Ints WidenBytes(const int8_t* from) {
    return (Ints)_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static Ints IntsOfBytes(const int8_t* from) {
    return (Ints)_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
  }
  static Ints MulWords(Ints a, Ints b) { return (Ints)_mm256_madd_epi16((__m256i)a, (__m256i)b); }
  static Ints MulBytes(Ints unsigned_bytes, Ints signed_bytes) {
    return (Ints)_mm256_maddubs_epi16((__m256i)unsigned_bytes, (__m256i)signed_bytes);
  }
  static Ints AddWords(Ints a, Ints b) { return (Ints)_mm256_add_epi16((__m256i)a, (__m256i)b); }
  static void StoreWords(Ints v, int16_t* words) { _mm_storeu_si128(reinterpret_cast<__m128i*>(words), Narrow(v)); }
  static void StoreBytes(Ints v, int8_t* bytes) {
    const __m128i narrow = Narrow(v);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(bytes), _mm_packs_epi16(narrow, narrow));
  }

 private:
  static __m128i Narrow(Ints v) {
    return _mm_packs_epi32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));
  }
};

}  // namespace
}  // namespace sightline::cpu
