// Compiled for AVX-512 with BF16 and VNNI (module.cmake).
#include <immintrin.h>

namespace {

// _mm512_dpbusd_epi32, but g++ 12 would keep its sums in memory; so it would after a cast to __m512i.
template <class Ints>
inline Ints AddByteProducts(Ints sum, Ints unsigned_bytes, Ints signed_bytes) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(unsigned_bytes), "v"(signed_bytes));
  return sum;
}

}  // namespace

#include "backend/cpu/kernels.inl.h"
#include "backend/cpu/vector_avx512_bf16.inl.h"

namespace sightline::cpu {

const CpuKernels& Avx512BF16Kernels() {
  static constexpr CpuKernels kKernels = MakeKernels<Avx512BF16>(kBF16Kernels<Avx512BF16>);
  return kKernels;
}

}  // namespace sightline::cpu
