// Private: operations on rows, one by one, and how a row is quantised. Statistics are float32; the variance is the mean
// squared distance from the mean, found in a second pass: the difference of two large sums would lose it.
#pragma once

#include <cstdint>

#include "backend/cpu/int8_group.h"
#include "backend/cpu/sinks.inl.h"

namespace sightline::cpu {
namespace {

// Sum of term(vector at i) over a row; the elements beyond it do not count.
template <class Isa, class Term>
float SumOver(const float* row, int64_t columns, Term term) {
  typename Isa::Vec sum = Isa::Set(0.0f);
  int64_t i = 0;
  for (; i + Isa::kLanes <= columns; i += Isa::kLanes) sum += term(Load<Isa>(row + i));
  if (i < columns) sum += KeepFirst<Isa>(term(LoadFirst<Isa>(row + i, columns - i)), columns - i, 0.0f);
  return Sum<Isa>(sum);
}

template <class Isa>
float LargestSize(const float* x) {
  using Ints = typename Isa::Ints;
  Ints largest = Isa::SetInts(0);
  // Sizes of floats compare like their bits, and not-a-number comes out as the largest.
  for (int i = 0; i < kGroupValues; i += Isa::kLanes) {
    const Ints bits = (Ints)Load<Isa>(x + i) & 0x7fffffff;
    largest = largest > bits ? largest : bits;
  }
  int32_t most = 0;
  for (int i = 0; i < Isa::kLanes; ++i) {
    if (largest[i] > most) most = largest[i];
  }
  float size;
  __builtin_memcpy(&size, &most, sizeof size);
  return size;
}

// Integers of x / scale, to nearest, ties to even.
template <class Isa>
void QuantiseGroup(const float* x, Int8Group* group, int64_t groups_of_row) {
  Int8Group& to = *group;
  using Vec = typename Isa::Vec;
  using Ints = typename Isa::Ints;
  constexpr float kNothing = 1e-30f;  // smaller ones have no inverse
  const float size = LargestSize<Isa>(x);
  const Vec inverse = Isa::Set(size > kNothing ? 127.0f / size : 0.0f);
  to.scale = size / 127.0f;
  to.unused = 0;
  for (int half = 0; half < 2; ++half) {
    Ints sum = Isa::SetInts(0);
    for (int i = half * kGroupValues / 2; i < (half + 1) * kGroupValues / 2; i += Isa::kLanes) {
      // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
      const Vec rounded = Load<Isa>(x + i) * inverse + Isa::Set(12582912.0f);
      const Ints integers = (Ints)((typename Isa::Bits)rounded << 24) >> 24;
      Isa::StoreBytes(integers, to.bytes + i);
      if constexpr (!kDotsBytes<Isa>) {
        Isa::StoreWords(integers, WordsOf(group, groups_of_row, half) + i - half * kGroupValues / 2);
      }
      sum += integers;
    }
    int32_t sums[2] = {0, 0};
    for (int i = 0; i < Isa::kLanes; ++i) sums[i % 4 / 2] += sum[i];
    for (int i = 0; i < 2; ++i) to.corrections[half][i] = static_cast<int16_t>(-kInt4Offset * sums[i]);
  }
}

template <class Isa>
void Quantise(const float* x, int64_t columns, Int8Group* to) {
  const int64_t groups = (columns + kGroupValues - 1) / kGroupValues;
  for (; columns >= kGroupValues; columns -= kGroupValues, x += kGroupValues) QuantiseGroup<Isa>(x, to++, groups);
  if (columns == 0) return;
  float padded[kGroupValues] = {};
  for (int64_t i = 0; i < columns; ++i) padded[i] = x[i];
  QuantiseGroup<Isa>(padded, to, groups);
}

// Calls compute(row of x, row of y, sink) for every row of the task.
template <class Isa, class Compute>
void ForEachRow(const RowTask& task, int64_t x_stride, Compute compute) {
  const int64_t groups = (task.columns + kGroupValues - 1) / kGroupValues;
  for (int64_t row = task.row_begin; row < task.row_end; ++row) {
    const float* x = task.x + row * x_stride;
    switch (task.format) {
      case RowFormat::kF32:
        compute(x, static_cast<float*>(task.y) + row * task.columns, StoreF32<Isa>());
        break;
      case RowFormat::kBF16:
        // Only asked for where operands are bfloat16.
        if constexpr (kHasBF16<Isa>) {
          compute(x, static_cast<uint16_t*>(task.y) + row * task.columns, StoreBF16<Isa>());
        }
        break;
      case RowFormat::kInt8:
        compute(x, task.scratch, StoreF32<Isa>());
        Quantise<Isa>(task.scratch, task.columns, static_cast<Int8Group*>(task.y) + row * kInt8RowParts * groups);
        break;
    }
  }
}

template <class Isa>
void LayerNorm(const RowTask& task) {
  using Vec = typename Isa::Vec;
  const int64_t columns = task.columns;
  const float count = static_cast<float>(columns);
  ForEachRow<Isa>(task, columns, [&](const float* x, auto* y, auto sink) {
    const Vec mean = Isa::Set(SumOver<Isa>(x, columns, [](const Vec& v) { return v; }) / count);
    const float variance = SumOver<Isa>(x, columns, [mean](const Vec& v) { return (v - mean) * (v - mean); }) / count;
    const Vec scale = Isa::Set(1.0f / __builtin_sqrtf(variance + task.epsilon));
    StoreEach<Isa, decltype(sink)>(
        columns, y, [&](auto load) { return Isa::MulAdd((load(x) - mean) * scale, load(task.gain), load(task.bias)); });
  });
}

template <class Isa>
void RmsNorm(const RowTask& task) {
  using Vec = typename Isa::Vec;
  const int64_t columns = task.columns;
  ForEachRow<Isa>(task, columns, [&](const float* x, auto* y, auto sink) {
    const float squares = SumOver<Isa>(x, columns, [](const Vec& v) { return v * v; });
    const Vec scale = Isa::Set(1.0f / __builtin_sqrtf(squares / static_cast<float>(columns) + task.epsilon));
    StoreEach<Isa, decltype(sink)>(columns, y, [&](auto load) { return load(x) * scale * load(task.gain); });
  });
}

template <class Isa>
void SwiGlu(const RowTask& task) {
  ForEachRow<Isa>(task, 2 * task.columns, [&](const float* x, auto* y, auto sink) {
    StoreEach<Isa, decltype(sink)>(task.columns, y,
                                   [&](auto load) { return Silu<Isa>(load(x)) * load(x + task.columns); });
  });
}

template <class Isa>
void Convert(const RowTask& task) {
  ForEachRow<Isa>(task, task.columns, [&](const float* x, auto* y, auto sink) {
    StoreEach<Isa, decltype(sink)>(task.columns, y, [&](auto load) { return load(x); });
  });
}

}  // namespace
}  // namespace sightline::cpu
