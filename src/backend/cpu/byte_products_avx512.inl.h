// Private: the product of bytes of AVX-512 VNNI. The including file brings the intrinsics.
#pragma once

namespace {

// _mm512_dpbusd_epi32, but g++ 12 would keep its sums in memory; so it would after a cast to __m512i.
template <class Ints>
inline Ints AddByteProducts(Ints sum, Ints unsigned_bytes, Ints signed_bytes) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(unsigned_bytes), "v"(signed_bytes));
  return sum;
}

}  // namespace
