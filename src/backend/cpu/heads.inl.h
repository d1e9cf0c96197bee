// Private: projections taken apart into heads. Keys and values are written as panels, so attention needs no
// transposition.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/matmul.inl.h"

namespace sightline::cpu {
namespace {

// Writes keys and values of one head. `channels` holds `count` channels from `channel` on, in operand format.
template <class Operand>
class KeyValueWriter {
 public:
  using Element = typename Operand::Element;

  KeyValueWriter(void* keys, void* values, int64_t capacity, int head_size)
      : layout_(MakeHeadLayout(Isa::kLanes, kPanelColumns, Operand::kPair, capacity, head_size)),
        keys_(static_cast<Element*>(keys)),
        values_(static_cast<Element*>(values)) {}

  // Whole pairs. A key is a column of its panel.
  [[gnu::always_inline]] void PutKey(int64_t head, int64_t key, int64_t channel, const Element* channels,
                                     int64_t count) const {
    const int64_t first = key / kPanelColumns * kPanelColumns;
    const int64_t width = layout_.keys.width(first);
    Element* to = keys_ + head * layout_.key_elements + layout_.keys.offset(first) + channel * width +
                  (key - first) * Operand::kPair;
    for (int64_t i = 0; i < count; i += Operand::kPair)
      __builtin_memcpy(to + i * width, channels + i, sizeof(uint32_t));
  }

  // Of one panel. A value is a row of its panels; a pair of bfloat16 holds two rows.
  [[gnu::always_inline]] void PutValue(int64_t head, int64_t key, int64_t channel, const Element* channels,
                                       int64_t count) const {
    const int64_t first = channel / kPanelColumns * kPanelColumns;
    const int64_t width = layout_.values.width(first);
    Element* to = values_ + head * layout_.value_elements + layout_.values.offset(first) +
                  (key - key % Operand::kPair) * width + (channel - first) * Operand::kPair + key % Operand::kPair;
    for (int64_t i = 0; i < count; ++i) to[i * Operand::kPair] = channels[i];
  }

  // Those of the even key `key` and of the next one.
  [[gnu::always_inline]] void PutValuePair(int64_t head, int64_t key, int64_t channel, const Element* channels,
                                           const Element* next_channels, int64_t count) const {
    static_assert(Operand::kPair == 2);
    const int64_t first = channel / kPanelColumns * kPanelColumns;
    const int64_t width = layout_.values.width(first);
    Element* to =
        values_ + head * layout_.value_elements + layout_.values.offset(first) + key * width + 2 * (channel - first);
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t pair = channels[i] | static_cast<uint32_t>(next_channels[i]) << 16;
      __builtin_memcpy(to + 2 * i, &pair, sizeof pair);
    }
  }

 private:
  using Isa = typename Operand::Isa;
  static constexpr int kPanelColumns = Isa::kLanes * Isa::kPanelVectors;
  const HeadLayout layout_;
  Element* const keys_;
  Element* const values_;
};

// Channels of one head and one panel that Qkv writes together, in operand format. Its head sizes are multiples of 16.
template <class Operand>
struct ChannelGroup {
  static constexpr int kPanelColumns = Operand::Isa::kLanes * Operand::Isa::kPanelVectors;
  static constexpr int kSize = kPanelColumns < 16 ? kPanelColumns : 16;
  typename Operand::Element channels[kSize];

  ChannelGroup(const float* c, const float* bias) {
    using Isa = typename Operand::Isa;
    for (int j = 0; j < kSize; j += Isa::kLanes) {
      typename Isa::Vec v = Load<Isa>(c + j);
      if (bias != nullptr) v += Load<Isa>(bias + j);
      Operand::Sink::Put(v, channels + j);
    }
  }
};

// Columns are [which][head][channel]; a panel may hold parts of several heads.
template <class Product>
void Qkv(const MatmulTask& task, const float* bias, const HeadArrays& arrays) {
  using Operand = typename Product::Operand;
  using Group = ChannelGroup<Operand>;
  const int64_t sequence = task.row_begin / arrays.length, size = arrays.head_size;
  const int64_t first_row = sequence * arrays.length, first_head = sequence * arrays.heads;
  const KeyValueWriter<Operand> writer(arrays.keys, arrays.values, arrays.length, arrays.head_size);
  auto* queries = static_cast<typename Operand::Element*>(arrays.queries);
  const int64_t width = arrays.heads * size, query_elements = QueryElements(arrays.length, size);
  Multiply<Product>(task, [&](const FinishedTile& tile) {
    const int64_t end = Smaller(tile.column + tile.columns, task.outputs);
    for (int64_t column = tile.column; column < end; column += Group::kSize) {
      const int64_t which = column / width, channel = column % size;
      const int64_t head = first_head + column % width / size;
      const float* group_bias = bias == nullptr ? nullptr : bias + column;
      const auto each_row = [&](auto put) {
        for (int64_t i = 0; i < tile.rows; ++i) {
          const Group group(tile.c + i * tile.c_stride + column - tile.column, group_bias);
          put(tile.row + i - first_row, group);
        }
      };
      if (which == 0) {
        each_row([&](int64_t row, const Group& group) {
          __builtin_memcpy(queries + head * query_elements + row * size + channel, group.channels,
                           sizeof group.channels);
        });
      } else if (which == 1) {
        each_row(
            [&](int64_t row, const Group& group) { writer.PutKey(head, row, channel, group.channels, Group::kSize); });
      } else {
        each_row([&](int64_t row, const Group& group) {
          writer.PutValue(head, row, channel, group.channels, Group::kSize);
        });
      }
    }
  });
}

// Turns the heads of a task's rows. Channel c becomes x[c] * cosines[c] + x[partner of c] * sines[c], the sine with its
// sign. (Buffers of a head lie in the task's scratch.)
template <class Isa>
class RowTurner {
 public:
  explicit RowTurner(const SplitHeadsTask& task)
      : task_(task),
        size_(task.head_size),
        stride_(RoundUp(size_, kMostLanes)),
        cosines_(task.scratch),
        sines_(cosines_ + kSplitRows * stride_),
        partners_(sines_ + kSplitRows * stride_) {
    for (int64_t row = task.row_begin; turns() && row < task.row_end; ++row) ReadAngles(row);
  }

  template <class Sink>
  void Turn(int64_t row, const float* x, float factor, typename Sink::Element* y) const {
    const typename Isa::Vec times = Isa::Set(factor);
    if (!turns()) {
      StoreEach<Isa, Sink>(size_, y, [&](auto load) { return load(x) * times; });
      return;
    }
    const float* cosines = cosines_ + (row - task_.row_begin) * stride_;
    const float* sines = sines_ + (row - task_.row_begin) * stride_;
    const auto turn = [&](const typename Isa::Vec& v, const typename Isa::Vec& partners, auto load) {
      return Isa::MulAdd(v, load(cosines), partners * load(sines)) * times;
    };
    if (task_.neighbours_turn) {
      StoreEach<Isa, Sink>(size_, y, [&](auto load) {
        const typename Isa::Vec v = load(x);
        return turn(v, SwapNeighbours<Isa>(v), load);
      });
      return;
    }
    const size_t half_bytes = static_cast<size_t>(size_ / 2) * sizeof(float);
    __builtin_memcpy(partners_, x + size_ / 2, half_bytes);
    __builtin_memcpy(partners_ + size_ / 2, x, half_bytes);
    StoreEach<Isa, Sink>(size_, y, [&](auto load) { return turn(load(x), load(partners_), load); });
  }

 private:
  bool turns() const { return task_.cosine != nullptr; }

  void ReadAngles(int64_t row) {
    const int64_t half = size_ / 2;
    float* cosines = cosines_ + (row - task_.row_begin) * stride_;
    float* sines = sines_ + (row - task_.row_begin) * stride_;
    for (int64_t p = 0; p < half; ++p) {
      const float cosine = task_.cosine[row * half + p], sine = task_.sine[row * half + p];
      const int64_t a = task_.neighbours_turn ? 2 * p : p, b = task_.neighbours_turn ? 2 * p + 1 : p + half;
      cosines[a] = cosines[b] = cosine;
      sines[a] = -sine;
      sines[b] = sine;
    }
  }

  const SplitHeadsTask& task_;
  const int64_t size_;
  const int64_t stride_;  // from row to row of cosines and sines
  float* const cosines_;
  float* const sines_;
  float* const partners_;
};

template <class Product>
void SplitHeads(const SplitHeadsTask& task) {
  using Operand = typename Product::Operand;
  using Isa = typename Operand::Isa;
  using Sink = typename Operand::Sink;
  using Element = typename Operand::Element;
  constexpr int kPanelColumns = Isa::kLanes * Isa::kPanelVectors;
  const int64_t size = task.head_size, group = task.query_heads / task.key_heads;
  const int64_t stride = (task.query_heads + 2 * task.key_heads) * size;
  const RowTurner<Isa> turner(task);
  const KeyValueWriter<Operand> writer(task.keys, task.values, task.capacity, task.head_size);
  auto* queries = static_cast<Element*>(task.queries);
  auto* head = reinterpret_cast<Element*>(task.scratch + (2 * kSplitRows + 1) * RoundUp(size, kMostLanes));
  Element* next_head = head + RoundUp(size, kMostLanes);
  const auto each_row = [&](auto do_row) {
    for (int64_t row = task.row_begin; row < task.row_end; ++row) do_row(row);
  };
  const float* x = task.projected;
  for (int64_t i = 0; i < task.query_heads; ++i, x += size) {
    each_row([&](int64_t row) {
      const int64_t index = (i / group * task.rows + row) * group + i % group;
      turner.template Turn<Sink>(row, x + row * stride, task.query_scale, queries + index * size);
    });
  }
  for (int64_t i = 0; i < task.key_heads; ++i, x += size) {
    each_row([&](int64_t row) {
      turner.template Turn<Sink>(row, x + row * stride, 1.0f, head);
      writer.PutKey(i, task.first_key + row, 0, head, size);
    });
  }
  const auto each_panel = [&](auto put) {
    for (int64_t channel = 0; channel < size; channel += kPanelColumns) {
      put(channel, Smaller(kPanelColumns, size - channel));
    }
  };
  for (int64_t i = 0; i < task.key_heads; ++i, x += size) {
    for (int64_t row = task.row_begin; row < task.row_end; ++row) {
      const int64_t key = task.first_key + row;
      const auto copy = [&](int64_t of_row, Element* to) {
        StoreEach<Isa, Sink>(size, to, [&](auto load) { return load(x + of_row * stride); });
      };
      copy(row, head);
      if constexpr (Operand::kPair == 2) {
        if (key % 2 == 0 && row + 1 < task.row_end) {
          copy(++row, next_head);
          each_panel([&](int64_t channel, int64_t count) {
            writer.PutValuePair(i, key, channel, head + channel, next_head + channel, count);
          });
          continue;
        }
      }
      each_panel([&](int64_t channel, int64_t count) { writer.PutValue(i, key, channel, head + channel, count); });
    }
  }
}

}  // namespace
}  // namespace sightline::cpu
