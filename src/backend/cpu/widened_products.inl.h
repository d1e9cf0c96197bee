// Private: products of rows that are not quantised with 8-bit weights, which are widened on the way to the format of
// the rows. Sums over a group of weights stay in registers; they are scaled and added up in memory.
#pragma once

#include <cstdint>

#include "backend/cpu/int8_group.h"
#include "backend/cpu/matmul.inl.h"

namespace sightline::cpu {
namespace {

// One byte for every lane.
template <class Isa>
[[gnu::always_inline]] inline typename Isa::Vec BytesToFloat(const char* from) {
  return ToFloat<Isa>(Isa::IntsOfBytes(reinterpret_cast<const int8_t*>(from)));
}

template <class Operand_>
struct Int8WidenedProduct {
  using Operand = Operand_;
  using Isa = typename Operand::Isa;
  using Element = typename Operand::Element;
  using Weight = Int8WidenedColumn;
  static constexpr int kPair = 1;
  static constexpr int64_t Steps(int64_t depth) { return depth / Operand::kPair + 1; }

  template <int kRows, int kVectors>
  static void Multiply(const PanelTask<Int8WidenedProduct>& task) {
    constexpr int64_t kScaleBytes = kVectors * sizeof(typename Isa::Vec);
    const auto* panel = reinterpret_cast<const char*>(task.panel);
    Ahead ahead = task.ahead;
    for (int64_t k = 0; k < task.depth; k += kWeightGroupValues) {
      Sums<Isa, kRows, kVectors> sums;
#pragma GCC unroll 6
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) sums[i][j] = Isa::Set(0.0f);
      }
      const int64_t inputs = Smaller(kWeightGroupValues, task.depth - k);
      SumGroup<kRows, kVectors>(task.x + k, task.x_stride, panel + kScaleBytes, inputs, ahead, sums);
      AddScaled<kRows, kVectors>(panel, sums, !task.resume && k == 0, task.c, task.c_stride);
      panel += kVectors * Isa::kLanes * sizeof(Weight);
    }
  }

 private:
  // Bytes of the weights of one input.
  template <int kVectors>
  static constexpr int64_t kRowBytes = kVectors* Isa::kLanes;

  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void SumGroup(const Element* x, int64_t x_stride, const char* weights, int64_t inputs,
                                              Ahead& ahead, Sums<Isa, kRows, kVectors>& sums) {
    if constexpr (Operand::kPair == 1) {
      for (int64_t k = 0; k < inputs; ++k, weights += kRowBytes<kVectors>) {
        ahead.Fetch();
        typename Isa::Vec row[kVectors];
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) row[j] = BytesToFloat<Isa>(weights + j * Isa::kLanes);
        AddOuterProduct<Isa, kRows, kVectors>(x + k, x_stride, row, sums);
      }
    } else {
      for (int64_t k = 0; k < inputs - 1; k += 2, weights += 2 * kRowBytes<kVectors>) {
        ahead.Fetch();
        AddPairs<kRows, kVectors, sizeof(uint32_t)>(x + k, x_stride, weights, sums);
      }
      // What follows in memory is the next row of x.
      if (inputs % 2 != 0) AddPairs<kRows, kVectors, sizeof(uint16_t)>(x + inputs - 1, x_stride, weights, sums);
    }
  }

  // Whole numbers of 8 bits are exact in bfloat16.
  template <int kRows, int kVectors, size_t kPairBytes>
  [[gnu::always_inline]] static void AddPairs(const Element* x, int64_t x_stride, const char* weights,
                                              Sums<Isa, kRows, kVectors>& sums) {
    using Bits = typename Isa::Bits;
    Bits row[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      const char* first = weights + j * Isa::kLanes;
      row[j] = (Bits)BytesToFloat<Isa>(first) >> 16 | (Bits)BytesToFloat<Isa>(first + kRowBytes<kVectors>);
    }
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      uint32_t pair = 0;
      __builtin_memcpy(&pair, x + i * x_stride, kPairBytes);
      const Bits a = Isa::SetPair(pair);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sums[i][j] = Isa::DotPairs(a, row[j], sums[i][j]);
    }
  }

  // c += sums * scales, or c = where `fresh`.
  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void AddScaled(const char* scales, const Sums<Isa, kRows, kVectors>& sums, bool fresh,
                                               float* c, int64_t c_stride) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      typename Isa::Vec scale;
      __builtin_memcpy(&scale, scales + j * sizeof scale, sizeof scale);
#pragma GCC unroll 6
      for (int i = 0; i < kRows; ++i) {
        float* to = c + i * c_stride + j * Isa::kLanes;
        const typename Isa::Vec before = fresh ? Isa::Set(0.0f) : Load<Isa>(to);
        Store<Isa>(Isa::MulAdd(sums[i][j], scale, before), to);
      }
    }
  }
};

template <class Operand>
inline constexpr int64_t kInputsOfWeight<Int8WidenedProduct<Operand>> = kWeightGroupValues;

}  // namespace
}  // namespace sightline::cpu
