// Private: softmax(q k^T) v for a block of queries of one head. All scores of a query are kept, so the largest one and
// the sum are found in one pass each and nothing is rescaled.
#pragma once

#include <cstdint>

#include "backend/cpu/matmul.inl.h"

namespace sightline::cpu {
namespace {

template <class Isa>
float LargestOf(const float* values, int64_t count) {
  using Vec = typename Isa::Vec;
  constexpr int kLanes = Isa::kLanes;
  constexpr float kLowest = -3.4028235e38f;
  Vec even = Isa::Set(kLowest), odd = even;
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    even = Isa::Max(even, Load<Isa>(values + i));
    odd = Isa::Max(odd, Load<Isa>(values + i + kLanes));
  }
  for (; i < count; i += kLanes) {
    Vec v = Load<Isa>(values + i);
    if (i + kLanes > count) v = KeepFirst<Isa>(v, count - i, kLowest);
    even = Isa::Max(even, v);
  }
  return Largest<Isa>(Isa::Max(even, odd));
}

// A whole number near the largest of `count` scores. Beyond the range of Exp2, scores are made relative to it first.
inline float WholeNear(float largest, float* scores, int64_t count) {
  if (largest < 0x1p20f && largest > -0x1p20f) return (largest + 12582912.0f) - 12582912.0f;
  for (int64_t i = 0; i < count; ++i) scores[i] -= largest;
  return 0.0f;
}

// Turns `count` scores into weights proportional to 2^score, in operand format and in place, and returns their sum.
// Memory up to the next whole vector is written.
template <class Operand>
float Exponentiate(float* scores, int64_t count) {
  using Isa = typename Operand::Isa;
  using Vec = typename Isa::Vec;
  constexpr int kLanes = Isa::kLanes;
  const float whole = WholeNear(LargestOf<Isa>(scores, count), scores, count);
  auto* weights = reinterpret_cast<typename Operand::Element*>(scores);  // never wider than the scores read so far
  Vec sum = Isa::Set(0.0f);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Vec weight = Exp2<Isa>(Load<Isa>(scores + i), whole);
    sum += weight;
    Operand::Put(weight, weights + i);
  }
  if (i < count) {
    const Vec weight = KeepFirst<Isa>(Exp2<Isa>(Load<Isa>(scores + i), whole), count - i, 0.0f);
    sum += weight;
    Operand::Put(weight, weights + i);
  }
  return Sum<Isa>(sum);
}

// Product: F32Product or PairProduct, by the storage of queries, keys and values.
template <class Product>
void Attention(const AttentionTask& task) {
  using Isa = typename Product::Isa;
  using Operand = typename Product::Operand;
  using Element = typename Operand::Element;
  constexpr int kPanelColumns = Isa::kLanes * Isa::kPanelVectors;
  const HeadArrays& arrays = task.arrays;
  const int64_t length = arrays.length, size = arrays.head_size, rows = task.row_end - task.row_begin;
  const HeadLayout layout = MakeHeadLayout(Isa::kLanes, kPanelColumns, Operand::kPair, length, arrays.head_size);
  const int64_t index = task.sequence * arrays.heads + task.head;
  const auto* queries = static_cast<const Element*>(arrays.queries) + index * layout.query_elements;
  const auto* keys = static_cast<const Element*>(arrays.keys) + index * layout.key_elements;
  const auto* values = static_cast<const Element*>(arrays.values) + index * layout.value_elements;

  const int64_t stride = ScoreStride(length);
  float* scores = task.scores;                           // [kQueryBlock, stride]
  float* product = scores + kQueryBlock * stride;        // [kQueryBlock, kPanelColumns]
  float* scale = product + kQueryBlock * kPanelColumns;  // [kQueryBlock]

  for (int64_t key = 0; key < length; key += kPanelColumns) {
    const Element* panel = keys + layout.keys.offset(key);
    MultiplyPanel<Product>({.x = queries + task.row_begin * size,
                            .x_stride = size,
                            .panel = panel,
                            .depth = size,
                            .c = scores + key,
                            .c_stride = stride},
                           rows, layout.keys.width(key), panel + layout.keys.offset(kPanelColumns),
                           [](int64_t, int64_t, float*) {});
  }
  for (int64_t i = 0; i < rows; ++i) scale[i] = 1.0f / Exponentiate<Operand>(scores + i * stride, length);

  const auto* weights = reinterpret_cast<const Element*>(scores);
  const int64_t weight_stride = stride * static_cast<int64_t>(sizeof(float) / sizeof(Element));
  const int64_t y_stride = arrays.heads * size;
  Element* y = static_cast<Element*>(task.y) + (task.sequence * length + task.row_begin) * y_stride + task.head * size;
  for (int64_t channel = 0; channel < size; channel += kPanelColumns) {
    const int64_t width = layout.values.width(channel);
    const Element* panel = values + layout.values.offset(channel);
    MultiplyPanel<Product>({.x = weights,
                            .x_stride = weight_stride,
                            .panel = panel,
                            .depth = length,
                            .c = product,
                            .c_stride = kPanelColumns},
                           rows, width, panel + layout.values.offset(kPanelColumns),
                           [&](int64_t row, int64_t tile_rows, const float* c) {
                             for (int64_t i = 0; i < tile_rows; ++i) {
                               Element* to = y + (row + i) * y_stride + channel;
                               const typename Isa::Vec factor = Isa::Set(scale[row + i]);
                               for (int64_t j = 0; j < width; j += Isa::kLanes) {
                                 Operand::Put(Load<Isa>(c + i * kPanelColumns + j) * factor, to + j);
                               }
                             }
                           });
  }
}

}  // namespace
}  // namespace sightline::cpu
