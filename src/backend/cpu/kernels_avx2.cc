// Compiled for AVX2 and FMA (module.cmake).
#include <immintrin.h>

#include "backend/cpu/kernels.inl.h"
#include "backend/cpu/vector_avx2.inl.h"

namespace sightline::cpu {

const CpuKernels& Avx2Kernels() {
  static constexpr CpuKernels kKernels = MakeKernels<Avx2>(kWideningKernels<Avx2>);
  return kKernels;
}

}  // namespace sightline::cpu
