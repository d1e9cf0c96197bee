// The AVX-512 and AMX kernels compiled against SIMDe instead of the compiler's intrinsics, so that any processor can
// run them.
#include "backend/cpu/kernels.h"
#include "gtest/gtest.h"

#if __has_include(<simde/x86/avx512.h>)

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

#include <cstring>

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
namespace {

// The tiles of AMX, one number at a time.
struct EmulatedTiles {
  static void Use() {}
  static void Release() {}
  template <int kTile>
  static void Zero() {
    std::memset(tiles[kTile], 0, sizeof tiles[kTile]);
  }
  template <int kTile>
  static void Load(const void* from, int64_t stride) {
    for (int i = 0; i < 16; ++i) std::memcpy(tiles[kTile][i], static_cast<const char*>(from) + i * stride, 64);
  }
  template <int kTile>
  static void LoadOnce(const void* from, int64_t stride) {
    Load<kTile>(from, stride);
  }
  template <int kTile>
  static void Store(void* to, int64_t stride) {
    for (int i = 0; i < 16; ++i) std::memcpy(static_cast<char*>(to) + i * stride, tiles[kTile][i], 64);
  }
  static void FetchToWrite(const char*) {}
  template <int kSum, int kRows, int kPanel>
  static void DotPairs() {
    Dot<float, uint16_t>(kSum, kRows, kPanel, FloatFromBF16);
  }
  template <int kSum, int kRows, int kPanel>
  static void DotBytes() {
    Dot<int32_t, int8_t>(kSum, kRows, kPanel, [](int8_t value) { return value; });
  }

 private:
  template <class Sum, class Element, class Widen>
  static void Dot(int sum, int rows, int panel, Widen widen) {
    constexpr int kElements = 4 / sizeof(Element);
    Sum sums[16][16];
    Element a[16][16 * kElements], b[16][16][kElements];
    std::memcpy(sums, tiles[sum], sizeof sums);
    std::memcpy(a, tiles[rows], sizeof a);
    std::memcpy(b, tiles[panel], sizeof b);
    for (int i = 0; i < 16; ++i) {
      for (int k = 0; k < 16 * kElements; ++k) {
        for (int j = 0; j < 16; ++j) sums[i][j] += widen(a[i][k]) * widen(b[k / kElements][j][k % kElements]);
      }
    }
    std::memcpy(tiles[sum], sums, sizeof sums);
  }

  static thread_local char tiles[8][16][64];
};
thread_local char EmulatedTiles::tiles[8][16][64];

struct EmulatedAmx : cpu::Avx512BF16 {
  using Tiles = EmulatedTiles;
};

}  // namespace

const cpu::CpuKernels* EmulatedAmxKernels() {
  static constexpr cpu::CpuKernels kKernels = cpu::MakeTileKernels<EmulatedAmx>();
  return &kKernels;
}

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
const cpu::CpuKernels* EmulatedAmxKernels() { return nullptr; }

}  // namespace sightline

#endif
