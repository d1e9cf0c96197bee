// Private: the bfloat16 and byte arithmetic of newer processors with AVX-512. The including file brings the intrinsics,
// and AddByteProducts(sum, unsigned bytes, signed bytes), which is vpdpbusd.
#pragma once

#include <cstdint>

#include "backend/cpu/vector_avx512.inl.h"

namespace sightline::cpu {
namespace {

struct Avx512BF16 : Avx512 {
  typedef uint16_t Half __attribute__((vector_size(32)));  // 16 bfloat16 numbers

  static Bits SetPair(uint32_t pair) { return (Bits)_mm512_set1_epi32(static_cast<int>(pair)); }
  // sum + a.low * b.low + a.high * b.high in every 32-bit lane.
  static Vec DotPairs(Bits a, Bits b, Vec sum) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }
  static Half Narrow(Vec v) { return (Half)_mm512_cvtneps_pbh(v); }
  // sum + the four products of bytes of every 32-bit lane.
  static Ints DotBytes(Ints unsigned_bytes, Ints signed_bytes, Ints sum) {
    return AddByteProducts(sum, unsigned_bytes, signed_bytes);
  }
};

}  // namespace
}  // namespace sightline::cpu
