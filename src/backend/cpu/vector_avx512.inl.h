// Private: sixteen floats at a time with AVX-512. The including file brings the intrinsics.
#pragma once

#include <cstdint>

namespace sightline::cpu {
namespace {

struct Avx512 {
  using Vec = __m512;
  typedef uint32_t Bits __attribute__((vector_size(64)));
  typedef int32_t Ints __attribute__((vector_size(64)));
  static constexpr int kLanes = 16;
  // 6 rows x 4 vectors of sums, 4 of weights and 1 of x: 29 of 32 registers.
  static constexpr int kPanelVectors = 4;

  static Vec Set(float value) { return _mm512_set1_ps(value); }
  static Vec MulAdd(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  // b where either is not a number.
  // (g++ 12 warns about its own header in the form without a mask.)
  static Vec Max(Vec a, Vec b) { return _mm512_maskz_max_ps(0xffff, a, b); }

  // Integers: see vector_math.inl.h for what each does.
  static Ints SetInts(int32_t value) { return (Ints)_mm512_set1_epi32(value); }
  static Ints WidenBytes(const int8_t* from) {
    return (Ints)_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  // (As Max.)
  static Ints IntsOfBytes(const int8_t* from) {
    return (Ints)_mm512_maskz_cvtepi8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static Ints MulWords(Ints a, Ints b) { return (Ints)_mm512_madd_epi16((__m512i)a, (__m512i)b); }
  static Ints MulBytes(Ints unsigned_bytes, Ints signed_bytes) {
    return (Ints)_mm512_maddubs_epi16((__m512i)unsigned_bytes, (__m512i)signed_bytes);
  }
  static Ints AddWords(Ints a, Ints b) { return (Ints)_mm512_add_epi16((__m512i)a, (__m512i)b); }
  static void StoreWords(Ints v, int16_t* words) {
    typedef int16_t Words __attribute__((vector_size(32)));
    const auto narrow = __builtin_convertvector(v, Words);
    __builtin_memcpy(words, &narrow, sizeof narrow);
  }
  static void StoreBytes(Ints v, int8_t* bytes) {
    typedef int8_t Bytes __attribute__((vector_size(16)));
    const auto narrow = __builtin_convertvector(v, Bytes);
    __builtin_memcpy(bytes, &narrow, sizeof narrow);
  }
};

}  // namespace
}  // namespace sightline::cpu
