// Private: what happens to a product before it is stored. Bias, nonlinearity, residual and the change of number format
// cost no pass of their own; Qkv writes keys and values as panels, so attention needs no transposition.
#pragma once

#include <cstdint>

#include "backend/cpu/matmul.inl.h"

namespace sightline::cpu {
namespace {

// Sinks: where finished vectors go. PutFirst writes `count` < kLanes elements.
template <class Isa>
struct StoreF32 {
  using Element = float;
  static void Put(typename Isa::Vec v, float* to) { Store<Isa>(v, to); }
  static void PutFirst(typename Isa::Vec v, float* to, int64_t count) { StoreFirst<Isa>(v, to, count); }
};

template <class Isa>
struct AddF32 {
  using Element = float;
  static void Put(typename Isa::Vec v, float* to) { Store<Isa>(Load<Isa>(to) + v, to); }
  static void PutFirst(typename Isa::Vec v, float* to, int64_t count) {
    StoreFirst<Isa>(LoadFirst<Isa>(to, count) + v, to, count);
  }
};

template <class Isa>
struct StoreBF16 {
  using Element = uint16_t;
  static void Put(typename Isa::Vec v, uint16_t* to) { BF16Operand<Isa>::Put(v, to); }
  static void PutFirst(typename Isa::Vec v, uint16_t* to, int64_t count) {
    uint16_t lanes[Isa::kLanes];
    Put(v, lanes);
    for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
  }
};

template <class Isa, Nonlinearity kNonlinearity>
typename Isa::Vec Apply(typename Isa::Vec v) {
  if constexpr (kNonlinearity == Nonlinearity::kGelu) return Gelu<Isa>(v);
  if constexpr (kNonlinearity == Nonlinearity::kRelu) return Isa::Max(Isa::Set(0.0f), v);
  return v;
}

template <class Product, class Sink, Nonlinearity kNonlinearity>
void LinearInto(const MatmulTask& task, const LinearOutput& output) {
  using Isa = typename Product::Isa;
  constexpr int kLanes = Isa::kLanes;
  auto* y = static_cast<typename Sink::Element*>(output.y);
  const float* bias = output.bias;
  Multiply<Product>(task, [&](const FinishedTile& tile) {
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

// Channels of one head and one panel that are written together, in operand format. Head sizes are multiples of 16.
template <class Operand>
struct ChannelGroup {
  static constexpr int kPanelColumns = Operand::Isa::kLanes * Operand::Isa::kPanelVectors;
  static constexpr int kSize = kPanelColumns < 16 ? kPanelColumns : 16;
  static constexpr int kUnits = kSize / Operand::kPair;  // 32-bit lanes of a panel
  typename Operand::Element channels[kSize];

  ChannelGroup(const float* c, const float* bias) {
    using Isa = typename Operand::Isa;
    for (int j = 0; j < kSize; j += Isa::kLanes) {
      typename Isa::Vec v = Load<Isa>(c + j);
      if (bias != nullptr) v += Load<Isa>(bias + j);
      Operand::Put(v, channels + j);
    }
  }
};

// Heads of one sequence, and the three ways rows are written to them. `group` holds the channels from `channel` on.
template <class Operand>
class HeadWriter {
 public:
  using Element = typename Operand::Element;

  HeadWriter(const HeadArrays& arrays, int64_t sequence)
      : arrays_(arrays),
        layout_(MakeHeadLayout(Isa::kLanes, kPanelColumns, Operand::kPair, arrays.length, arrays.head_size)),
        first_head_(sequence * arrays.heads) {}

  void PutQuery(int64_t head, int64_t row, int64_t channel, const ChannelGroup<Operand>& group) const {
    Element* queries = static_cast<Element*>(arrays_.queries) + (first_head_ + head) * layout_.query_elements;
    __builtin_memcpy(queries + row * arrays_.head_size + channel, group.channels, sizeof group.channels);
  }

  // A key is a column of its panel.
  void PutKey(int64_t head, int64_t key, int64_t channel, const ChannelGroup<Operand>& group) const {
    const PanelLayout& panels = layout_.keys;
    const int64_t first = key / kPanelColumns * kPanelColumns;
    const int64_t width = panels.width(first);
    Element* to = static_cast<Element*>(arrays_.keys) + (first_head_ + head) * layout_.key_elements +
                  panels.offset(first) + channel * width + (key - first) * Operand::kPair;
    for (int unit = 0; unit < ChannelGroup<Operand>::kUnits; ++unit) {
      __builtin_memcpy(to + unit * width * Operand::kPair, group.channels + unit * Operand::kPair, sizeof(uint32_t));
    }
  }

  // A value is a row of its panel; a pair of bfloat16 holds two rows, so an odd last row clears the half beside it.
  void PutValue(int64_t head, int64_t key, int64_t channel, const ChannelGroup<Operand>& group) const {
    const PanelLayout& panels = layout_.values;
    const int64_t first = channel / kPanelColumns * kPanelColumns;
    const int64_t width = panels.width(first);
    Element* to = static_cast<Element*>(arrays_.values) + (first_head_ + head) * layout_.value_elements +
                  panels.offset(first) + (key - key % Operand::kPair) * width + (channel - first) * Operand::kPair;
    if constexpr (Operand::kPair == 1) {
      __builtin_memcpy(to, group.channels, sizeof group.channels);
    } else {
      const bool alone = key % 2 == 0 && key + 1 == arrays_.length;
      for (int i = 0; i < ChannelGroup<Operand>::kSize; ++i) to[2 * i + key % 2] = group.channels[i];
      for (int i = 0; alone && i < ChannelGroup<Operand>::kSize; ++i) to[2 * i + 1] = 0;
    }
  }

 private:
  using Isa = typename Operand::Isa;
  static constexpr int kPanelColumns = Isa::kLanes * Isa::kPanelVectors;
  const HeadArrays& arrays_;
  const HeadLayout layout_;
  const int64_t first_head_;
};

// Columns are [which][head][channel]; a panel may hold parts of several heads.
template <class Product>
void Qkv(const MatmulTask& task, const float* bias, const HeadArrays& arrays) {
  using Operand = typename Product::Operand;
  const int64_t sequence = task.row_begin / arrays.length;
  const int64_t first_row = sequence * arrays.length;
  const HeadWriter<Operand> writer(arrays, sequence);
  const int64_t width = int64_t{arrays.heads} * arrays.head_size;
  Multiply<Product>(task, [&](const FinishedTile& tile) {
    const int64_t end = Smaller(tile.column + tile.columns, task.outputs);
    for (int64_t column = tile.column; column < end; column += ChannelGroup<Operand>::kSize) {
      const int64_t which = column / width;
      const int64_t head = column % width / arrays.head_size;
      const int64_t channel = column % arrays.head_size;
      const float* group_bias = bias == nullptr ? nullptr : bias + column;
      const auto each_row = [&](auto put) {
        for (int64_t i = 0; i < tile.rows; ++i) {
          put(tile.row + i - first_row,
              ChannelGroup<Operand>(tile.c + i * tile.c_stride + column - tile.column, group_bias));
        }
      };
      using Group = const ChannelGroup<Operand>&;
      if (which == 0) each_row([&](int64_t row, Group group) { writer.PutQuery(head, row, channel, group); });
      if (which == 1) each_row([&](int64_t row, Group group) { writer.PutKey(head, row, channel, group); });
      if (which == 2) each_row([&](int64_t row, Group group) { writer.PutValue(head, row, channel, group); });
    }
  });
}

}  // namespace
}  // namespace sightline::cpu
