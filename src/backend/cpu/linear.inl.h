// Private: what happens to a product before it is stored. Bias, nonlinearity, residual and the change of number format
// cost no pass of their own.
#pragma once

#include <cstdint>

#include "backend/cpu/matmul.inl.h"

namespace sightline::cpu {
namespace {

template <class Isa, Nonlinearity kNonlinearity>
typename Isa::Vec Apply(typename Isa::Vec v) {
  if constexpr (kNonlinearity == Nonlinearity::kGelu) return Gelu<Isa>(v);
  if constexpr (kNonlinearity == Nonlinearity::kGeluTanh) return GeluTanh<Isa>(v);
  if constexpr (kNonlinearity == Nonlinearity::kRelu) return Isa::Max(Isa::Set(0.0f), v);
  return v;
}

template <class Product, class Sink, Nonlinearity kNonlinearity>
void LinearInto(const MatmulTask& task, const LinearOutput& output) {
  using Isa = typename Product::Isa;
  constexpr int kLanes = Isa::kLanes;
  auto* y = static_cast<typename Sink::Element*>(output.y);
  const float* bias = output.bias;
  constexpr int64_t kElementBytes = sizeof(typename Sink::Element);
  MatmulTask product = task;
  product.output = {reinterpret_cast<char*>(y), task.outputs * kElementBytes, kElementBytes};
  Multiply<Product>(product, [&](const FinishedTile& tile) {
    const int64_t columns = Smaller(tile.columns, task.outputs - tile.column);
    for (int64_t i = 0; i < tile.rows; ++i) {
      const float* c = tile.c + i * tile.c_stride;
      typename Sink::Element* to = y + (tile.row + i) * task.outputs + tile.column;
      int64_t j = 0;
      for (; j + kLanes <= columns; j += kLanes) {
        typename Isa::Vec v = Load<Isa>(c + j);
        if (bias != nullptr) v += Load<Isa>(bias + tile.column + j);
        Sink::Put(Apply<Isa, kNonlinearity>(v), to + j);
      }
      if (j == columns) continue;
      typename Isa::Vec v = Load<Isa>(c + j);
      if (bias != nullptr) v += LoadFirst<Isa>(bias + tile.column + j, columns - j);
      Sink::PutFirst(Apply<Isa, kNonlinearity>(v), to + j, columns - j);
    }
  });
}

template <class Product, class Sink>
void LinearTo(const MatmulTask& task, const LinearOutput& output) {
  switch (output.nonlinearity) {
    case Nonlinearity::kNone:
      return LinearInto<Product, Sink, Nonlinearity::kNone>(task, output);
    case Nonlinearity::kGelu:
      return LinearInto<Product, Sink, Nonlinearity::kGelu>(task, output);
    case Nonlinearity::kGeluTanh:
      return LinearInto<Product, Sink, Nonlinearity::kGeluTanh>(task, output);
    case Nonlinearity::kRelu:
      return LinearInto<Product, Sink, Nonlinearity::kRelu>(task, output);
  }
}

template <class Product>
void Linear(const MatmulTask& task, const LinearOutput& output) {
  using Isa = typename Product::Isa;
  switch (output.sink) {
    case LinearSink::kStoreF32:
      return LinearTo<Product, StoreF32<Isa>>(task, output);
    case LinearSink::kAddF32:
      return LinearTo<Product, AddF32<Isa>>(task, output);
    case LinearSink::kStoreBF16:
      // Only asked for where operands are bfloat16.
      if constexpr (Product::Operand::kPair == 2) return LinearTo<Product, StoreBF16<Isa>>(task, output);
  }
}

}  // namespace
}  // namespace sightline::cpu
