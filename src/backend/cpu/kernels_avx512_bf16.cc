// Compiled for AVX-512 with BF16 and VNNI (module.cmake).
#include <immintrin.h>

#include "backend/cpu/byte_products_avx512.inl.h"
#include "backend/cpu/kernels.inl.h"
#include "backend/cpu/vector_avx512_bf16.inl.h"

namespace sightline::cpu {

const CpuKernels& Avx512BF16Kernels() {
  static constexpr CpuKernels kKernels = MakeKernels<Avx512BF16>(kBF16Kernels<Avx512BF16>);
  return kKernels;
}

}  // namespace sightline::cpu
