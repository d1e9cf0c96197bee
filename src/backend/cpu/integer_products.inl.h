// Private: products of rows quantised to 8 bits with 8-bit and 4-bit weights. Within a group the sums are integers and
// exact, so every instruction set finds the same; group by group they are scaled and added up in float32.
#pragma once

#include <cstdint>

#include "backend/cpu/int8_group.h"
#include "backend/cpu/matmul.inl.h"

namespace sightline::cpu {
namespace {

template <class Isa_>
struct Int8Operand {
  using Isa = Isa_;
  using Element = Int8Group;
  static constexpr int kPair = 1;
};

template <class Isa, int kRows, int kVectors>
using IntSums = typename Isa::Ints[kRows][kVectors];

template <class Isa, int kRows, int kVectors>
[[gnu::always_inline]] inline void Clear(IntSums<Isa, kRows, kVectors>& sums) {
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) sums[i][j] = Isa::SetInts(0);
  }
}

// Four bytes of x, for every lane.
template <class Isa, class Integer>
[[gnu::always_inline]] inline typename Isa::Ints Broadcast(const Integer* from) {
  int32_t four;
  __builtin_memcpy(&four, from, sizeof four);
  return Isa::SetInts(four);
}

template <class Isa>
inline constexpr bool kDotsBytes = requires(typename Isa::Ints v) {
  Isa::DotBytes(v, v, v);
};

// sums += products of the unsigned bytes `row` with bytes k to k + 3 of x: 32-bit sums of four, or 16-bit sums of two
// where there is no instruction for that.
template <class Isa, int kRows, int kVectors>
[[gnu::always_inline]] inline void AddBytes(const Int8Group* x, int64_t x_stride, int k,
                                            const typename Isa::Ints (&row)[kVectors],
                                            IntSums<Isa, kRows, kVectors>& sums) {
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
    const typename Isa::Ints a = Broadcast<Isa>(x[i * x_stride].bytes + k);
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      if constexpr (kDotsBytes<Isa>) {
        sums[i][j] = Isa::DotBytes(row[j], a, sums[i][j]);
      } else {
        sums[i][j] = Isa::AddWords(sums[i][j], Isa::MulBytes(row[j], a));
      }
    }
  }
}

// c += (sums - offset * sum of x) * scale of x * scales of the weights, or c = where `fresh`.
template <class Product, int kRows, int kVectors>
[[gnu::always_inline]] inline void AddScaled(const PanelTask<Product>& task, int64_t group, int part,
                                             const char* scales,
                                             const IntSums<typename Product::Isa, kRows, kVectors>& sums, bool fresh) {
  using Isa = typename Product::Isa;
  typename Isa::Vec weight_scales[kVectors];
#pragma GCC unroll 4
  for (int j = 0; j < kVectors; ++j) {
    __builtin_memcpy(&weight_scales[j], scales + j * sizeof(typename Isa::Vec), sizeof(typename Isa::Vec));
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
    const Int8Group& x = task.x[i * task.x_stride + group];
    const typename Isa::Vec scale = Isa::Set(x.scale);
    const int32_t x_sum = Product::kParts == 2 ? x.half_sums[part] : x.half_sums[0] + x.half_sums[1];
    const typename Isa::Ints correction = Isa::SetInts(Product::kOffset * x_sum);
    float* c = task.c + i * task.c_stride;
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      typename Isa::Ints sum = sums[i][j];
      if constexpr (Product::kOffset != 0) sum -= correction;
      const typename Isa::Vec before = fresh ? Isa::Set(0.0f) : Load<Isa>(c + j * Isa::kLanes);
      Store<Isa>(Isa::MulAdd(ToFloat<Isa>(sum), scale * weight_scales[j], before), c + j * Isa::kLanes);
    }
  }
}

// A tile of an integer product. Product::SumPart sets the integer sums of one group of weights; a group of x holds
// kParts of those.
template <class Product, int kRows, int kVectors>
void MultiplyGroups(PanelTask<Product> task) {
  using Isa = typename Product::Isa;
  constexpr int64_t kScaleBytes = kVectors * sizeof(typename Isa::Vec);
  constexpr int64_t kPartBytes = kVectors * Isa::kLanes * sizeof(typename Product::Weight) / Product::kParts;
  const auto* panel = reinterpret_cast<const char*>(task.panel);
  Ahead ahead = task.ahead;
  for (int64_t group = 0; group < task.depth; ++group) {
#pragma GCC unroll 1
    for (int part = 0; part < Product::kParts; ++part, panel += kPartBytes) {
      IntSums<Isa, kRows, kVectors> sums;
      Product::template SumPart<kRows, kVectors>(task.x + group, task.x_stride, part, panel + kScaleBytes, ahead, sums);
      AddScaled<Product, kRows, kVectors>(task, group, part, panel, sums, !task.resume && group == 0 && part == 0);
    }
  }
}

// 8-bit weights widened to 16 bits, products two at a time: where the processor cannot multiply bytes without
// saturating.
template <class Isa_>
struct Int8WordProduct {
  using Isa = Isa_;
  using Operand = Int8Operand<Isa>;
  using Weight = Int8Column;
  static constexpr int kPair = 1, kParts = 1, kOffset = 0;
  static constexpr int64_t kGroupSteps = kGroupValues / 2;
  static constexpr int64_t Steps(int64_t depth) { return depth * kGroupSteps; }

  template <int kRows, int kVectors>
  static void Multiply(const PanelTask<Int8WordProduct>& task) {
    MultiplyGroups<Int8WordProduct, kRows, kVectors>(task);
  }

  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void SumPart(const Int8Group* x, int64_t x_stride, int, const char* weights,
                                             Ahead& ahead, IntSums<Isa, kRows, kVectors>& sums) {
    Clear<Isa, kRows, kVectors>(sums);
    const auto* from = reinterpret_cast<const int8_t*>(weights);
    for (int k = 0; k < kGroupValues; k += 2, from += 2 * kVectors * Isa::kLanes) {
      ahead.Fetch();
      typename Isa::Ints row[kVectors];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) row[j] = Isa::WidenBytes(from + 2 * j * Isa::kLanes);
#pragma GCC unroll 6
      for (int i = 0; i < kRows; ++i) {
        const typename Isa::Ints a = Broadcast<Isa>(x[i * x_stride].words + k);
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) sums[i][j] += Isa::MulWords(a, row[j]);
      }
    }
  }
};

// 8-bit weights, stored unsigned, four products at a time.
template <class Isa_>
struct Int8ByteProduct {
  using Isa = Isa_;
  using Operand = Int8Operand<Isa>;
  using Weight = Int8Column;
  static constexpr int kPair = 1, kParts = 1, kOffset = kInt8Offset;
  static constexpr int64_t kGroupSteps = kGroupValues / 4;
  static constexpr int64_t Steps(int64_t depth) { return depth * kGroupSteps; }

  template <int kRows, int kVectors>
  static void Multiply(const PanelTask<Int8ByteProduct>& task) {
    MultiplyGroups<Int8ByteProduct, kRows, kVectors>(task);
  }

  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void SumPart(const Int8Group* x, int64_t x_stride, int, const char* weights,
                                             Ahead& ahead, IntSums<Isa, kRows, kVectors>& sums) {
    Clear<Isa, kRows, kVectors>(sums);
    for (int k = 0; k < kGroupValues; k += 4, weights += 4 * kVectors * Isa::kLanes) {
      ahead.Fetch();
      typename Isa::Ints row[kVectors];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) row[j] = LoadInts<Isa>(weights + 4 * j * Isa::kLanes);
      AddBytes<Isa, kRows, kVectors>(x, x_stride, k, row, sums);
    }
  }
};

// 4-bit weights. Two products of bytes, at most 2 * 15 * 127, are added up as 16-bit numbers over 32 inputs, which
// cannot overflow; where there is a dot product of four bytes, it does without.
template <class Isa_>
struct Int4Product {
  using Isa = Isa_;
  using Operand = Int8Operand<Isa>;
  using Weight = Int4Column;
  static constexpr int kPair = 1, kParts = 2, kOffset = kInt4Offset;
  static constexpr int64_t Steps(int64_t depth) { return depth * kGroupValues / 8; }

  template <int kRows, int kVectors>
  static void Multiply(const PanelTask<Int4Product>& task) {
    MultiplyGroups<Int4Product, kRows, kVectors>(task);
  }

  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void SumPart(const Int8Group* x, int64_t x_stride, int part, const char* weights,
                                             Ahead& ahead, IntSums<Isa, kRows, kVectors>& sums) {
    constexpr int kStepBytes = 4 * kVectors * Isa::kLanes;  // of 8 inputs
    const int first = part * kInt4GroupValues;
    if constexpr (kDotsBytes<Isa>) {
      Clear<Isa, kRows, kVectors>(sums);
      for (int k = 0; k < kInt4GroupValues; k += 8, weights += kStepBytes) {
        AddStep<kRows, kVectors>(x, x_stride, first + k, weights, ahead, sums);
      }
    } else {
      constexpr int kHalf = kInt4GroupValues / 2;
      IntSums<Isa, kRows, kVectors> words, earlier;
      SumHalf<kRows, kVectors>(x, x_stride, first, weights, ahead, words);
      Widen<kRows, kVectors>(words, earlier);
      SumHalf<kRows, kVectors>(x, x_stride, first + kHalf, weights + kStepBytes * kHalf / 8, ahead, words);
      Widen<kRows, kVectors>(words, sums);
#pragma GCC unroll 6
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) sums[i][j] += earlier[i][j];
      }
    }
  }

 private:
  // 16-bit sums over 32 inputs.
  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void SumHalf(const Int8Group* x, int64_t x_stride, int first, const char* weights,
                                             Ahead& ahead, IntSums<Isa, kRows, kVectors>& words) {
    Clear<Isa, kRows, kVectors>(words);
    for (int k = first; k < first + kInt4GroupValues / 2; k += 8, weights += 4 * kVectors * Isa::kLanes) {
      AddStep<kRows, kVectors>(x, x_stride, k, weights, ahead, words);
    }
  }

  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void Widen(const IntSums<Isa, kRows, kVectors>& words,
                                           IntSums<Isa, kRows, kVectors>& sums) {
    const typename Isa::Ints ones = Isa::SetInts(0x00010001);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sums[i][j] = Isa::MulWords(words[i][j], ones);
    }
  }

  // Inputs k to k + 7.
  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void AddStep(const Int8Group* x, int64_t x_stride, int k, const char* weights,
                                             Ahead& ahead, IntSums<Isa, kRows, kVectors>& sums) {
    ahead.Fetch();
    typename Isa::Ints row[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) row[j] = LoadInts<Isa>(weights + 4 * j * Isa::kLanes) & 0x0f0f0f0f;
    AddBytes<Isa, kRows, kVectors>(x, x_stride, k, row, sums);
    // Makes the compiler load the bytes again: it has no registers to keep them in.
    asm("" : "+r"(weights));
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) row[j] = LoadInts<Isa>(weights + 4 * j * Isa::kLanes) >> 4 & 0x0f0f0f0f;
    AddBytes<Isa, kRows, kVectors>(x, x_stride, k + 4, row, sums);
  }
};

}  // namespace
}  // namespace sightline::cpu
