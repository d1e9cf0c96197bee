// Private: softmax(q k^T) v for a block of query rows that read the same keys. All scores of a row over up to kKeyBlock
// keys are kept, so the largest one and the sum are found in one pass each. Further blocks of keys are made relative to
// the largest score so far; since scores are shifted by whole numbers, the change of scale is a power of two and exact.
//
// Blocks start at fixed keys and a key that a row does not see has weight 0, so a row's bits depend on nothing but what
// it sees.
#pragma once

#include <cstdint>

#include "backend/cpu/matmul.inl.h"

namespace sightline::cpu {
namespace {

constexpr float kLowest = -3.4028235e38f;

template <class Isa>
float LargestOf(const float* values, int64_t count) {
  using Vec = typename Isa::Vec;
  constexpr int kLanes = Isa::kLanes;
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

// Within the range of Exp2 the nearest whole number.
constexpr float kExp2Range = 0x1p20f;
inline float WholeNear(float score) {
  return score < kExp2Range && score > -kExp2Range ? (score + 12582912.0f) - 12582912.0f : score;
}

// Softmax of one row while blocks of keys go by. Weights are 2^(score - shift).
template <class Operand>
class RowSoftmax {
 public:
  using Isa = typename Operand::Isa;
  using Element = typename Operand::Element;

  // Turns `count` scores into weights, in operand format and in place, and the rest up to `depth` into zeros. Memory up
  // to the next whole vector is written. hidden: a score that does not count, or -1.
  void AddBlock(float* scores, int64_t count, int64_t depth, int64_t hidden) {
    if (hidden >= 0 && hidden < count) scores[hidden] = kLowest;
    const float before = shift_, candidate = WholeNear(LargestOf<Isa>(scores, count));
    shift_ = candidate > before ? candidate : before;
    factor_ = 1.0f;
    if (shift_ != before) factor_ = Exp2<Isa>(Isa::Set(before - shift_))[0];
    sum_ = sum_ * factor_ + Exponentiate(scores, count, hidden);
    auto* weights = reinterpret_cast<Element*>(scores);
    for (int64_t i = count; i < depth; ++i) weights[i] = 0;
  }

  float sum() const { return sum_; }
  // What sums of earlier blocks are to be multiplied by.
  float factor() const { return factor_; }

 private:
  float Exponentiate(float* scores, int64_t count, int64_t hidden) const {
    using Vec = typename Isa::Vec;
    constexpr int kLanes = Isa::kLanes;
    float whole = shift_;
    if (!(whole < kExp2Range && whole > -kExp2Range)) {
      for (int64_t i = 0; i < count; ++i) scores[i] -= whole;
      whole = 0;
    }
    auto* weights = reinterpret_cast<Element*>(scores);  // never wider than the scores read so far
    Vec sum = Isa::Set(0.0f);
    for (int64_t i = 0; i < count; i += kLanes) {
      Vec weight = Exp2<Isa>(Load<Isa>(scores + i), whole);
      if (i + kLanes > count) weight = KeepFirst<Isa>(weight, count - i, 0.0f);
      if (hidden >= i && hidden < i + kLanes) weight[hidden - i] = 0;
      sum += weight;
      Operand::Sink::Put(weight, weights + i);
    }
    return Sum<Isa>(sum);
  }

  float shift_ = -__builtin_inff();
  float sum_ = 0;
  float factor_ = 1;
};

// What a task sees.
class Visibility {
 public:
  explicit Visibility(const AttentionTask& task) : task_(task) {}

  // Keys up to the last one that row i of the task sees.
  int64_t Keys(int64_t i) const { return causal(i) ? task_.first_key + OutputRow(i) + 1 : task_.key_count; }
  int64_t Hidden(int64_t i) const { return causal(i) ? -1 : task_.hidden_key; }
  int64_t OutputRow(int64_t i) const { return (task_.first_row + i) / task_.group; }
  int64_t MostKeys() const {
    int64_t most = 0;
    for (int64_t i = 0; i < task_.rows; ++i) most = most < Keys(i) ? Keys(i) : most;
    return most;
  }

 private:
  bool causal(int64_t i) const { return OutputRow(i) < task_.causal_rows; }
  const AttentionTask& task_;
};

// Product: F32Product or PairProduct, by the storage of queries, keys and values. Sink: where the result goes.
template <class Product, class Sink>
class Attender {
 public:
  explicit Attender(const AttentionTask& task)
      : task_(task),
        visibility_(task),
        layout_(MakeHeadLayout(Isa::kLanes, kPanelColumns, Operand::kPair, task.capacity, task.head_size)),
        most_(visibility_.MostKeys()),
        stride_(ScoreStride(Smaller(most_, kKeyBlock))),
        scores_(task.scratch),
        product_(scores_ + kQueryBlock * stride_),
        sums_(product_ + kQueryBlock * kPanelColumns) {}

  void Run() {
    for (int64_t first = 0; first < most_; first += kKeyBlock) {
      const int64_t count = Smaller(kKeyBlock, most_ - first);
      Score(first, count);
      for (int64_t i = 0; i < task_.rows; ++i) {
        const int64_t seen = visibility_.Keys(i) - first;
        rows_[i].AddBlock(scores_ + i * stride_, seen < 0 ? 0 : Smaller(seen, count), count,
                          visibility_.Hidden(i) - first);
      }
      Weigh(first, count);
    }
  }

 private:
  using Isa = typename Product::Isa;
  using Operand = typename Product::Operand;
  using Element = typename Operand::Element;
  static constexpr int kPanelColumns = Isa::kLanes * Isa::kPanelVectors;

  // Whole panels: more keys than there are may be scored, which costs less than a tile of another width.
  void Score(int64_t first, int64_t count) const {
    const auto* queries = static_cast<const Element*>(task_.queries);
    const auto each_panel = [&](auto multiply) {
      for (int64_t key = 0; key < count; key += kPanelColumns) {
        const Element* panel = static_cast<const Element*>(task_.keys) + layout_.keys.offset(first + key);
        multiply(PanelTask<Product>{.x = queries,
                                    .x_stride = task_.head_size,
                                    .panel = panel,
                                    .depth = task_.head_size,
                                    .c = scores_ + key,
                                    .c_stride = stride_},
                 layout_.keys.width(first + key));
      }
    };
    if constexpr (kInTiles<Product>) {
      if (RowsInTiles<Product>::Fit(task_.rows, task_.head_size)) {
        const RowsInTiles<Product> rows(queries, task_.head_size, task_.rows, task_.head_size);
        each_panel([&](const PanelTask<Product>& task, int64_t columns) { rows.Multiply(task, columns); });
        return;
      }
    }
    each_panel([&](const PanelTask<Product>& task, int64_t columns) {
      const Element* next = task.panel + layout_.keys.offset(kPanelColumns);
      MultiplyPanel<Product>(task, task_.rows, columns, next, [](int64_t, int64_t, float*) {});
    });
  }

  void Weigh(int64_t first, int64_t count) const {
    const auto* weights = reinterpret_cast<const Element*>(scores_);
    for (int64_t channel = 0; channel < task_.head_size; channel += kPanelColumns) {
      const int64_t width = layout_.values.width(channel);
      const Element* panel = static_cast<const Element*>(task_.values) + layout_.values.offset(channel) + first * width;
      MultiplyPanel<Product>({.x = weights,
                              .x_stride = stride_ * static_cast<int64_t>(sizeof(float) / sizeof(Element)),
                              .panel = panel,
                              .depth = count,
                              .c = product_,
                              .c_stride = kPanelColumns},
                             task_.rows, width, panel + layout_.values.offset(kPanelColumns),
                             [&](int64_t row, int64_t rows, const float* c) {
                               for (int64_t i = 0; i < rows; ++i) {
                                 Finish(row + i, channel, width, c + i * kPanelColumns, first, first + count == most_);
                               }
                             });
    }
  }

  // Adds a row's block to those before it and stores the last one.
  void Finish(int64_t row, int64_t channel, int64_t width, const float* c, int64_t first, bool last) const {
    float* sum = sums_ + row * layout_.values.padded_columns + channel;
    const typename Isa::Vec factor = Isa::Set(rows_[row].factor()), scale = Isa::Set(1.0f / rows_[row].sum());
    auto* y = static_cast<typename Sink::Element*>(task_.y) + visibility_.OutputRow(row) * task_.y_stride +
              (task_.first_row + row) % task_.group * task_.head_size + channel;
    const int64_t channels = Smaller(width, task_.head_size - channel);
    for (int64_t j = 0; j < channels; j += Isa::kLanes) {
      typename Isa::Vec v = Load<Isa>(c + j);
      if (first > 0) v = Isa::MulAdd(Load<Isa>(sum + j), factor, v);
      if (!last) {
        Store<Isa>(v, sum + j);
      } else if (j + Isa::kLanes <= channels) {
        Sink::Put(v * scale, y + j);
      } else {
        Sink::PutFirst(v * scale, y + j, channels - j);
      }
    }
  }

  const AttentionTask& task_;
  const Visibility visibility_;
  const HeadLayout layout_;
  const int64_t most_;
  const int64_t stride_;
  float* const scores_;   // [kQueryBlock, stride]
  float* const product_;  // [kQueryBlock, kPanelColumns]
  float* const sums_;     // [kQueryBlock, padded head size], where there are several blocks of keys
  RowSoftmax<Operand> rows_[kQueryBlock];
};

template <class Product>
void Attention(const AttentionTask& task) {
  using Isa = typename Product::Isa;
  if constexpr (kHasBF16<Isa>) {
    if (task.format == RowFormat::kBF16) return Attender<Product, StoreBF16<Isa>>(task).Run();
  }
  Attender<Product, StoreF32<Isa>>(task).Run();
}

}  // namespace
}  // namespace sightline::cpu
