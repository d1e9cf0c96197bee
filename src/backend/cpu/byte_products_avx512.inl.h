// Private: the product of bytes of AVX-512 VNNI. The including file brings the intrinsics.
#pragma once

namespace {

// _mm512_dpbusd_epi32 without its casts to __m512i and back, with which g++ 12 keeps the sums of a loop in memory.
template <class Ints>
inline Ints AddByteProducts(Ints sum, Ints unsigned_bytes, Ints signed_bytes) {
#ifdef __clang__
  return (Ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)unsigned_bytes, (__m512i)signed_bytes);
#else
  return __builtin_ia32_vpdpbusd_v16si(sum, unsigned_bytes, signed_bytes);
#endif
}

}  // namespace
