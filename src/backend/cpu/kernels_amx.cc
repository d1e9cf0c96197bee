// Compiled for AVX-512 with BF16 and VNNI (module.cmake); tiles are in assembly.
#include <immintrin.h>

#include "backend/cpu/byte_products_avx512.inl.h"
#include "backend/cpu/kernels.inl.h"
#include "backend/cpu/vector_amx.inl.h"

namespace sightline::cpu {

const CpuKernels& AmxKernels() {
  static constexpr CpuKernels kKernels = MakeTileKernels<Amx>();
  return kKernels;
}

}  // namespace sightline::cpu
