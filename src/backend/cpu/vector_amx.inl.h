// Private: AVX-512 with BF16 and VNNI, and the tiles of AMX (BF16 and INT8). The including file brings what
// vector_avx512_bf16.inl.h needs.
#pragma once

#include <cstdint>

#include "backend/cpu/vector_avx512_bf16.inl.h"

namespace sightline::cpu {
namespace {

// The eight tiles of a thread, all of 16 rows of 64 bytes. In assembly, since g++ 12's intrinsics take a tile's number
// as text.
struct AmxTiles {
  // Before anything else on a thread. After Release the system no longer saves its tiles with every change of threads.
  static void Use() {
    struct alignas(64) Shapes {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static constexpr Shapes kShapes;
    asm volatile("ldtilecfg %0" : : "m"(kShapes));
  }
  static void Release() { asm volatile("tilerelease"); }

  template <int kTile>
  [[gnu::always_inline]] static void Zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  [[gnu::always_inline]] static void Load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  // What will not be read again soon, and need not take room in the first-level cache.
  template <int kTile>
  [[gnu::always_inline]] static void LoadOnce(const void* from, int64_t stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  [[gnu::always_inline]] static void Store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  // Brings near a cache line that will be written.
  [[gnu::always_inline]] static void FetchToWrite(const char* at) { asm volatile("prefetchw %0" : : "m"(*at)); }
  // sum += rows * panel, of pairs of bfloat16 and of fours of signed bytes.
  template <int kSum, int kRows, int kPanel>
  [[gnu::always_inline]] static void DotPairs() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kRows), "i"(kPanel));
  }
  template <int kSum, int kRows, int kPanel>
  [[gnu::always_inline]] static void DotBytes() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kRows), "i"(kPanel));
  }
};

struct Amx : Avx512BF16 {
  using Tiles = AmxTiles;
};

}  // namespace
}  // namespace sightline::cpu
