// Compiled for AVX-512 F, BW, DQ and VL (module.cmake).
#include <immintrin.h>

#include "backend/cpu/kernels.inl.h"
#include "backend/cpu/vector_avx512.inl.h"

namespace sightline::cpu {

const CpuKernels& Avx512Kernels() {
  static constexpr CpuKernels kKernels = MakeKernels<Avx512>(kWideningKernels<Avx512>);
  return kKernels;
}

}  // namespace sightline::cpu
