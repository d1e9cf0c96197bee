// Private: layer normalisation, one row at a time. The variance is the mean squared distance from the mean, found in a
// second pass: the difference of two large sums would lose it.
#pragma once

#include <cstdint>

#include "backend/cpu/linear.inl.h"

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

template <class Isa, class Sink>
void LayerNormInto(const LayerNormTask& task) {
  using Vec = typename Isa::Vec;
  const int64_t columns = task.columns;
  const float count = static_cast<float>(columns);
  for (int64_t row = task.row_begin; row < task.row_end; ++row) {
    const float* x = task.x + row * columns;
    const Vec mean = Isa::Set(SumOver<Isa>(x, columns, [](const Vec& v) { return v; }) / count);
    const float variance = SumOver<Isa>(x, columns, [mean](const Vec& v) { return (v - mean) * (v - mean); }) / count;
    const Vec scale = Isa::Set(1.0f / __builtin_sqrtf(variance + task.epsilon));
    auto* y = static_cast<typename Sink::Element*>(task.y) + row * columns;
    int64_t i = 0;
    for (; i + Isa::kLanes <= columns; i += Isa::kLanes) {
      const Vec normal = (Load<Isa>(x + i) - mean) * scale;
      Sink::Put(Isa::MulAdd(normal, Load<Isa>(task.gain + i), Load<Isa>(task.bias + i)), y + i);
    }
    if (const int64_t rest = columns - i; rest > 0) {
      const Vec normal = (LoadFirst<Isa>(x + i, rest) - mean) * scale;
      Sink::PutFirst(Isa::MulAdd(normal, LoadFirst<Isa>(task.gain + i, rest), LoadFirst<Isa>(task.bias + i, rest)),
                     y + i, rest);
    }
  }
}

}  // namespace
}  // namespace sightline::cpu
