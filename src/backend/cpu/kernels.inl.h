// Private: the table of one instruction set. Everything below it is a template over that set, in an unnamed namespace:
// code compiled for one processor can never stand in for another's.
#pragma once

#include <cstdint>

#include "backend/cpu/attention.inl.h"
#include "backend/cpu/heads.inl.h"
#include "backend/cpu/integer_products.inl.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/linear.inl.h"
#include "backend/cpu/matmul.inl.h"
#include "backend/cpu/rows.inl.h"
#include "backend/cpu/tiles.inl.h"
#include "backend/cpu/widened_products.inl.h"

namespace sightline::cpu {
namespace {

// Enough independent sums to hide the latency of a multiply-add on every processor we know.
constexpr int kSpinSums = 12;

template <class Isa, class Step>
int64_t Spin(int64_t rounds, int64_t flops_per_step, Step step) {
  typename Isa::Vec sums[kSpinSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSpinSums; ++i)
    sums[i] = Isa::Set(static_cast<float>(i));  // all different: equal ones would merge
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kSpinSums; ++i) sums[i] = step(sums[i]);
  }
  typename Isa::Vec total = sums[0];
#pragma GCC unroll 12
  for (int i = 1; i < kSpinSums; ++i) total += sums[i];
  // Never true, but the compiler does not know: the sums have to be computed.
  if (Sum<Isa>(total) < 0.0f) return 0;
  return rounds * kSpinSums * flops_per_step;
}

template <class Isa>
int64_t SpinF32(int64_t rounds) {
  const typename Isa::Vec half = Isa::Set(0.5f);
  return Spin<Isa>(rounds, 2 * Isa::kLanes, [half](auto sum) { return Isa::MulAdd(half, half, sum); });
}

template <class Isa>
int64_t SpinBF16(int64_t rounds) {
  const typename Isa::Bits half = Isa::SetPair(0x3f003f00u);
  return Spin<Isa>(rounds, 4 * Isa::kLanes, [half](auto sum) { return Isa::DotPairs(half, half, sum); });
}

// Multiply-adds of the integer formats. The compiler must not know that the factors stay the same. A separate addition
// has no latency worth hiding, and too many sums would not stay in registers.
template <class Isa, class Step>
int64_t SpinIntegers(int64_t rounds, int64_t operations_per_step, Step step) {
  constexpr int kSums = kDotsBytes<Isa> ? kSpinSums : 6;
  typename Isa::Ints sums[kSums], factor = Isa::SetInts(0x00010001);
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sums[i] = Isa::SetInts(i);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) {
      if constexpr (kHasRegisters<Isa>) asm("" : "+v"(factor));
      sums[i] = step(factor, sums[i]);
    }
  }
  typename Isa::Ints total = sums[0];
#pragma GCC unroll 12
  for (int i = 1; i < kSums; ++i) total += sums[i];
  asm volatile("" : : "m"(total));
  return rounds * kSums * operations_per_step;
}

template <class Isa>
int64_t SpinInt8(int64_t rounds) {
  using Ints = typename Isa::Ints;
  if constexpr (kDotsBytes<Isa>) {
    return SpinIntegers<Isa>(rounds, 8 * Isa::kLanes, [](Ints f, Ints sum) { return Isa::DotBytes(f, f, sum); });
  } else {
    return SpinIntegers<Isa>(rounds, 4 * Isa::kLanes, [](Ints f, Ints sum) { return sum + Isa::MulWords(f, f); });
  }
}

template <class Isa>
int64_t SpinInt4(int64_t rounds) {
  using Ints = typename Isa::Ints;
  if constexpr (kDotsBytes<Isa>) {
    return SpinInt8<Isa>(rounds);
  } else {
    return SpinIntegers<Isa>(rounds, 8 * Isa::kLanes,
                             [](Ints f, Ints sum) { return Isa::AddWords(sum, Isa::MulBytes(f, f)); });
  }
}

// The hint 4 KB ahead made this the fastest of many such loops (without one, other distances and caches, two streams at
// once) on processors of 2022 and 2023; numbers of 8 bytes instead of vectors read half as fast.
template <class Isa>
void Read(const void* from, int64_t bytes) {
  using Ints = typename Isa::Ints;
  constexpr size_t kLoads = kReadBytes / sizeof(Ints);
  const char* at = static_cast<const char*>(from);
  Ints all[kLoads] = {};
  for (const char* end = at + bytes; at < end; at += kReadBytes) {
#pragma GCC unroll 16
    for (size_t i = 0; i < kLoads; ++i) {
      if (i * sizeof(Ints) % 64 == 0) __builtin_prefetch(at + i * sizeof(Ints) + 4096, 0, 2);
      all[i] |= LoadInts<Isa>(at + i * sizeof(Ints));
    }
  }
  asm volatile("" : : "m"(all));
}

template <class Product, class HeadProduct>
constexpr FormatKernels MakeFormat(RowFormat operand, int64_t (*spin)(int64_t)) {
  return {.operand = operand,
          .linear = Linear<Product>,
          .spin = spin,
          .qkv = Qkv<Product>,
          .split_heads = SplitHeads<HeadProduct>,
          .attention = Attention<HeadProduct>};
}

template <class Isa>
constexpr FormatKernels kF32Kernels = MakeFormat<F32Product<Isa>, F32Product<Isa>>(RowFormat::kF32, SpinF32<Isa>);

// bfloat16 weights without bfloat16 arithmetic.
template <class Isa>
constexpr FormatKernels kWideningKernels = MakeFormat<WideningProduct<Isa>, F32Product<Isa>>(RowFormat::kF32,
                                                                                             SpinF32<Isa>);

template <class Isa>
constexpr FormatKernels kBF16Kernels = MakeFormat<PairProduct<Isa>, PairProduct<Isa>>(RowFormat::kBF16, SpinBF16<Isa>);

template <class Isa>
constexpr FormatKernels MakeInt8() {
  if constexpr (kDotsBytes<Isa>) {
    return {RowFormat::kInt8, Linear<Int8ByteProduct<Isa>>, SpinInt8<Isa>};
  } else {
    return {RowFormat::kInt8, Linear<Int8WordProduct<Isa>>, SpinInt8<Isa>};
  }
}

// Rows as they are kept beside bfloat16 weights.
template <class Isa>
constexpr FormatKernels MakeInt8Widened() {
  if constexpr (kHasBF16<Isa>) {
    return {RowFormat::kBF16, Linear<Int8WidenedProduct<BF16Operand<Isa>>>, SpinBF16<Isa>};
  } else {
    return {RowFormat::kF32, Linear<Int8WidenedProduct<F32Operand<Isa>>>, SpinF32<Isa>};
  }
}

// Sums in four tiles, of three others. `dot` names them.
template <class Isa, class Dot>
int64_t SpinTiles(int64_t rounds, int64_t operations_per_step, Dot dot) {
  alignas(64) char zeros[kTileSize] = {};
  const TileUse<Isa> use;
  using Block = TileBlock<Isa, 2, 2>;
  Block::Clear();
  Each<4>([&](auto i) { Isa::Tiles::template Load<4 + i.value>(zeros, kTileRowBytes); });
  constexpr int64_t kDots = 4;
  rounds /= 64;  // a tile is that much longer than a vector
  for (int64_t round = 0; round < rounds; ++round) {
    Each<2>([&](auto i) {
      Each<2>([&](auto j) {
        dot(Constant<Block::Sum(i.value, j.value)>(), Constant<Block::OfRows(i.value)>(),
            Constant<Block::OfPanel(j.value)>());
      });
    });
  }
  return rounds * kDots * operations_per_step;
}

template <class Isa>
int64_t SpinTilePairs(int64_t rounds) {
  return SpinTiles<Isa>(rounds, 2 * 32 * kTileHeight * Isa::kLanes,
                        [](auto sum, auto a, auto b) { Isa::Tiles::template DotPairs<sum.value, a.value, b.value>(); });
}

template <class Isa>
int64_t SpinTileBytes(int64_t rounds) {
  return SpinTiles<Isa>(rounds, 2 * 64 * kTileHeight * Isa::kLanes,
                        [](auto sum, auto a, auto b) { Isa::Tiles::template DotBytes<sum.value, a.value, b.value>(); });
}

template <class Isa>
constexpr CpuKernels MakeKernels(const FormatKernels& bf16) {
  return {.lanes = Isa::kLanes,
          .panel_columns = Isa::kLanes * Isa::kPanelVectors,
          .int8_layout = kDotsBytes<Isa> ? Int8Layout::kOffsetFours : Int8Layout::kPairs,
          .f32 = kF32Kernels<Isa>,
          .bf16 = bf16,
          .int8 = MakeInt8<Isa>(),
          .int8w = MakeInt8Widened<Isa>(),
          .int4 = {RowFormat::kInt8, Linear<Int4Product<Isa>>, SpinInt4<Isa>},
          .layer_norm = LayerNorm<Isa>,
          .rms_norm = RmsNorm<Isa>,
          .swiglu = SwiGlu<Isa>,
          .convert = Convert<Isa>,
          .read = Read<Isa>};
}

// Where products are computed in tiles, as far as the format allows.
template <class Isa>
constexpr CpuKernels MakeTileKernels() {
  using Pairs = TilePairProduct<Isa>;
  CpuKernels kernels = MakeKernels<Isa>(MakeFormat<Pairs, Pairs>(RowFormat::kBF16, SpinTilePairs<Isa>));
  kernels.bf16.row_tile_bytes = RowTileBytes<Pairs>;
  kernels.bf16.tile_depth = Pairs::kStepDepth;
  kernels.rows_at_once = kPairRows;
  kernels.int8_layout = Int8Layout::kFours;
  using Bytes = TileInt8Product<Isa>;
  kernels.int8 = {RowFormat::kInt8, Linear<Bytes>, SpinTileBytes<Isa>, RowTileBytes<Bytes>, Bytes::kStepDepth};
  return kernels;
}

}  // namespace
}  // namespace sightline::cpu
