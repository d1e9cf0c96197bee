// The AVX-512 kernels compiled against SIMDe instead of the compiler's intrinsics, so that any processor can run them.
#include "backend/cpu/kernels.h"
#include "gtest/gtest.h"

#if __has_include(<simde/x86/avx512.h>)

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

#include "tensor/tensor.h"

namespace {

// Intrinsics that SIMDe 0.7.4 lacks.
__m256i _mm512_cvtneps_pbh(__m512 v) {
  float lanes[16];
  uint16_t rounded[16];
  __builtin_memcpy(lanes, &v, sizeof lanes);
  for (int i = 0; i < 16; ++i) rounded[i] = sightline::BF16FromFloat(lanes[i]);
  __m256i result;
  __builtin_memcpy(&result, rounded, sizeof result);
  return result;
}

__m512i _mm512_maskz_cvtepi8_epi32(int, __m128i bytes) {
  int8_t narrow[16];
  int32_t lanes[16];
  __builtin_memcpy(narrow, &bytes, sizeof narrow);
  for (int i = 0; i < 16; ++i) lanes[i] = narrow[i];
  __m512i result;
  __builtin_memcpy(&result, lanes, sizeof result);
  return result;
}

// SIMDe 0.7.4 gives this name to the masked form.
#undef _mm512_madd_epi16
__m512i _mm512_madd_epi16(__m512i a, __m512i b) { return simde_mm512_madd_epi16(a, b); }

// vpdpbusd.
template <class Ints>
Ints AddByteProducts(Ints sum, Ints unsigned_bytes, Ints signed_bytes) {
  int32_t sums[16];
  uint8_t a[64];
  int8_t b[64];
  __builtin_memcpy(sums, &sum, sizeof sums);
  __builtin_memcpy(a, &unsigned_bytes, sizeof a);
  __builtin_memcpy(b, &signed_bytes, sizeof b);
  for (int i = 0; i < 64; ++i) sums[i / 4] += a[i] * b[i];
  __builtin_memcpy(&sum, sums, sizeof sums);
  return sum;
}

}  // namespace

#include "backend/cpu/kernels.inl.h"
#include "backend/cpu/vector_avx512_bf16.inl.h"
#include "tests/backend_targets.h"

namespace sightline {

const cpu::CpuKernels* EmulatedAvx512Kernels() {
  static constexpr cpu::CpuKernels kKernels = cpu::MakeKernels<cpu::Avx512>(cpu::kWideningKernels<cpu::Avx512>);
  return &kKernels;
}

const cpu::CpuKernels* EmulatedAvx512BF16Kernels() {
  static constexpr cpu::CpuKernels kKernels = cpu::MakeKernels<cpu::Avx512BF16>(cpu::kBF16Kernels<cpu::Avx512BF16>);
  return &kKernels;
}

}  // namespace sightline

#else

namespace sightline {

const cpu::CpuKernels* EmulatedAvx512Kernels() { return nullptr; }
const cpu::CpuKernels* EmulatedAvx512BF16Kernels() { return nullptr; }

}  // namespace sightline

#endif
