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

// Four bytes of x, for every lane.
template <class Isa, class Integer>
[[gnu::always_inline]] inline typename Isa::Ints Broadcast(const Integer* from) {
  int32_t four;
  __builtin_memcpy(&four, from, sizeof four);
  return Isa::SetInts(four);
}

// Sets all sums of row i to start(i).
template <class Isa, int kRows, int kVectors, class Start>
[[gnu::always_inline]] inline void StartSums(IntSums<Isa, kRows, kVectors>& sums, Start start) {
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
    const typename Isa::Ints first = start(i);
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) sums[i][j] = first;
  }
}

// Keeps g++ 12 from splitting 16-bit sums of a loop into one variable for the loop and one for what follows, in memory.
template <class Isa, int kRows, int kVectors>
[[gnu::always_inline]] inline void KeepInRegisters(IntSums<Isa, kRows, kVectors>& sums) {
  if constexpr (kHasRegisters<Isa>) {
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) asm("" : "+v"(sums[i][j]));
    }
  }
}

// The vectors of a row of one panel, or of two of the same width in turn: vector 2 j of the first, 2 j + 1 of the
// second.
template <int kVectors, int kPanels>
struct PanelVectors {
  static constexpr int kCount = kVectors * kPanels;
  int64_t second;  // bytes from the first panel to the second

  // Bytes from a row's first vector to vector j, of vectors of so many bytes.
  [[gnu::always_inline]] int64_t Offset(int j, int64_t vector_bytes) const {
    return j % kPanels * second + j / kPanels * vector_bytes;
  }
  // The number of vector j among those of all columns in order.
  static constexpr int Column(int j) { return j % kPanels * kVectors + j / kPanels; }
};

// The vectors of a row that one of two tiles brings near, of a row further ahead: the lower half or the upper.
template <int kCount>
struct HalfAhead {
  int64_t distance;  // of any of them from the vector of the same number, or the upper half's from that of the lower

  HalfAhead(const Ahead& ahead, int64_t vector_bytes)
      : distance(ahead.stream + (ahead.tile > 0 ? kCount / 2 * vector_bytes : 0)) {}
  [[gnu::always_inline]] void Fetch(int j, const char* from) const {
    if (j < (kCount + 1) / 2) __builtin_prefetch(from + distance, 0, 2);
  }
};

// Of weights that are read once, as they lie: what lies `distance` further is brought near right before each load. In
// other orders, of the same loads and hints, memory was up to a fifth slower.
template <class Isa>
[[gnu::always_inline]] inline typename Isa::Ints LoadStreamed(const char* from, int64_t distance) {
  __builtin_prefetch(from + distance, 0, 2);
  typename Isa::Ints ints = LoadInts<Isa>(from);
  if constexpr (kHasRegisters<Isa>) asm("" : "+v"(ints));
  return ints;
}

// sums += products of the unsigned bytes `row` with bytes k to k + 3 of x: 32-bit sums of four, or 16-bit sums of two
// where there is no instruction for that.
template <class Isa, int kRows, int kVectors>
[[gnu::always_inline]] inline void AddBytes(const Int8Group* x, int64_t x_stride, int k,
                                            const typename Isa::Ints (&row)[kVectors],
                                            IntSums<Isa, kRows, kVectors>& sums) {
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
    const typename Isa::Ints a = Broadcast<Isa>(x[i * x_stride].bytes + k);
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      if constexpr (kDotsBytes<Isa>) {
        sums[i][j] = Isa::DotBytes(row[j], a, sums[i][j]);
      } else {
        sums[i][j] = Isa::AddWords(sums[i][j], Isa::MulBytes(row[j], a));
      }
    }
  }
}

// c plus a group's two sums, each times its scale of the weights, times the scale of x; `first` is scaled already.
// Every product of integers ends so, whatever its number of rows: their bits are the same.
template <class Isa>
[[gnu::always_inline]] inline typename Isa::Vec AddGroup(const typename Isa::Vec& first,
                                                         const typename Isa::Vec& second,
                                                         const typename Isa::Vec& second_scale,
                                                         const typename Isa::Vec& x_scale, const typename Isa::Vec& c) {
  return Isa::MulAdd(Isa::MulAdd(second, second_scale, first), x_scale, c);
}

// A tile of an integer product. Product::SumPart sets the integer sums of one group of weights; a group of x holds
// two of those.
template <class Product, int kRows, int kVectors, int kPanels>
void MultiplyGroups(PanelTask<Product> task) {
  using Isa = typename Product::Isa;
  using Vec = typename Isa::Vec;
  constexpr int64_t kScaleBytes = kVectors * sizeof(Vec);
  constexpr int64_t kPartBytes = kVectors * Isa::kLanes * sizeof(typename Product::Weight) / Product::kParts;
  static_assert(Product::kParts == 2);
  const PanelVectors<kVectors, kPanels> vectors{task.second_panel};
  const auto* panel = reinterpret_cast<const char*>(task.panel);
  Ahead ahead = task.ahead;
  for (int64_t group = 0; group < task.depth; ++group, panel += 2 * kPartBytes) {
    const auto* x = task.x + group;
    Vec first[kRows][vectors.kCount];
    // Calls put(row, vector, sum, scale of the weights) for a part.
    const auto each_sum = [&](int part, auto put) {
      IntSums<Isa, kRows, vectors.kCount> sums;
      const char* weights = panel + part * kPartBytes;
      if (ahead.stream > 0) {
#pragma GCC unroll 8
        for (int j = 0; j < vectors.kCount; ++j) {
          const char* scale = weights + vectors.Offset(j, sizeof(Vec));
          __builtin_prefetch(scale + ahead.stream, 0, 2);
          __builtin_prefetch(scale, 0, 3);
        }
      }
      Product::template SumPart<kRows>(x, task.x_stride, part, weights + kScaleBytes, vectors, ahead, sums);
      Vec scales[vectors.kCount];
#pragma GCC unroll 8
      for (int j = 0; j < vectors.kCount; ++j) {
        __builtin_memcpy(&scales[j], weights + vectors.Offset(j, sizeof(Vec)), sizeof(Vec));
      }
#pragma GCC unroll 6
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < vectors.kCount; ++j) put(i, j, ToFloat<Isa>(sums[i][j]), scales[j]);
      }
    };
    each_sum(0, [&](int i, int j, const Vec& sum, const Vec& scale) { first[i][j] = sum * scale; });
    const bool fresh = !task.resume && group == 0;
    each_sum(1, [&](int i, int j, const Vec& sum, const Vec& scale) {
      float* c = task.c + i * task.c_stride + vectors.Column(j) * Isa::kLanes;
      const Vec before = fresh ? Isa::Set(0.0f) : Load<Isa>(c);
      Store<Isa>(AddGroup<Isa>(first[i][j], sum, scale, Isa::Set(x[i * task.x_stride].scale), before), c);
    });
  }
}

// 8-bit weights widened to 16 bits, products two at a time: where the processor cannot multiply bytes without
// saturating.
template <class Isa_>
struct Int8WordProduct {
  using Isa = Isa_;
  using Operand = Int8Operand<Isa>;
  using Weight = Int8Column;
  static constexpr int kPair = 1, kParts = 2;
  static constexpr int64_t Steps(int64_t depth) { return depth * kGroupValues / 2; }

  template <int kRows, int kVectors, int kPanels = 1>
  static void Multiply(const PanelTask<Int8WordProduct>& task) {
    MultiplyGroups<Int8WordProduct, kRows, kVectors, kPanels>(task);
  }

  template <int kRows, int kVectors, int kPanels>
  [[gnu::always_inline]] static void SumPart(const Int8Group* x, int64_t x_stride, int part, const char* weights,
                                             PanelVectors<kVectors, kPanels> vectors, Ahead& ahead,
                                             IntSums<Isa, kRows, kVectors * kPanels>& sums) {
    StartSums<Isa, kRows, kVectors * kPanels>(sums, [](int) { return Isa::SetInts(0); });
    const int64_t groups_of_row = x_stride / kInt8RowParts;
    const auto* from = reinterpret_cast<const int8_t*>(weights);
    const int first = part * kWeightGroupValues;
    for (int k = first; k < first + kWeightGroupValues; k += 2, from += 2 * kVectors * Isa::kLanes) {
      ahead.Fetch();
      typename Isa::Ints row[vectors.kCount];
#pragma GCC unroll 8
      for (int j = 0; j < vectors.kCount; ++j) row[j] = Isa::WidenBytes(from + vectors.Offset(j, 2 * Isa::kLanes));
#pragma GCC unroll 6
      for (int i = 0; i < kRows; ++i) {
        const typename Isa::Ints a = Broadcast<Isa>(WordsOf(x + i * x_stride, groups_of_row, part) + k - first);
#pragma GCC unroll 8
        for (int j = 0; j < vectors.kCount; ++j) sums[i][j] += Isa::MulWords(a, row[j]);
      }
    }
  }
};

// A signed byte plus kInt8Offset, for all four.
constexpr int32_t kSignBits = static_cast<int32_t>(0x80808080);

// 8-bit weights, stored unsigned or made so on the way, four products at a time.
template <class Isa_, Int8Layout kLayout = Int8Layout::kOffsetFours>
struct Int8ByteProduct {
  static_assert(kLayout != Int8Layout::kPairs);
  using Isa = Isa_;
  using Operand = Int8Operand<Isa>;
  using Weight = Int8Column;
  static constexpr int kPair = 1, kParts = 2;
  static constexpr int64_t Steps(int64_t depth) { return depth * kGroupValues / 4; }

  template <int kRows, int kVectors, int kPanels = 1>
  static void Multiply(const PanelTask<Int8ByteProduct>& task) {
    if constexpr (kVectors == 4 && kPanels == 1) {
      if (task.ahead.stream == 0 || task.ahead.tiles == 2) return MultiplyByHalves<kRows>(task);
    }
    MultiplyGroups<Int8ByteProduct, kRows, kVectors, kPanels>(task);
  }

  template <int kRows, int kVectors, int kPanels>
  [[gnu::always_inline]] static void SumPart(const Int8Group* x, int64_t x_stride, int part, const char* weights,
                                             PanelVectors<kVectors, kPanels> vectors, Ahead& ahead,
                                             IntSums<Isa, kRows, kVectors * kPanels>& sums) {
    Start<kRows, kVectors * kPanels>(x, x_stride, part, sums);
    const int first = part * kWeightGroupValues;
    const auto each_step = [&](auto load) {
      for (int k = first; k < first + kWeightGroupValues; k += 4, weights += 4 * kVectors * Isa::kLanes) {
        typename Isa::Ints row[vectors.kCount];
#pragma GCC unroll 8
        for (int j = 0; j < vectors.kCount; ++j) {
          row[j] = Unsigned(load(j, weights + vectors.Offset(j, 4 * Isa::kLanes)));
        }
        AddBytes<Isa, kRows, vectors.kCount>(x, x_stride, k, row, sums);
      }
    };
    if (ahead.stream > 0) {
      each_step([&](int, const char* from) { return LoadStreamed<Isa>(from, ahead.stream); });
    } else {
      each_step([&](int j, const char* from) {
        if (j == 0) ahead.FetchAll();
        return LoadInts<Isa>(from);
      });
    }
  }

 private:
  // Of four vectors two at a time, but both parts of a group at once: no part's sums wait in memory for the other's.
  // Where two tiles read weights as they lie, each brings near a part of a group further ahead, line by line: one that
  // is left out costs more than the hints for all others.
  template <int kRows>
  static void MultiplyByHalves(const PanelTask<Int8ByteProduct>& task) {
    using Vec = typename Isa::Vec;
    constexpr int kVectors = 4, kHalf = 2;
    constexpr int64_t kLine = 64;
    constexpr int64_t kScaleBytes = kVectors * sizeof(Vec);
    constexpr int64_t kPartBytes = kVectors * Isa::kLanes * sizeof(Weight) / kParts;
    // Copies: for all the compiler knows, each store to c changes the task.
    const auto* panel = reinterpret_cast<const char*>(task.panel);
    const Int8Group* x = task.x;
    const int64_t x_stride = task.x_stride, c_stride = task.c_stride, depth = task.depth;
    float* const c = task.c;
    Ahead ahead = task.ahead;
    const bool streams = ahead.stream > 0;
    if (!task.resume) {
#pragma GCC unroll 6
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) Store<Isa>(Isa::Set(0.0f), c + i * c_stride + j * Isa::kLanes);
      }
    }
    for (int64_t group = 0; group < depth; ++group, ++x, panel += kParts * kPartBytes) {
      const char* next = panel + ahead.stream + ahead.tile * kPartBytes;
      static_assert(kPartBytes == 2 * kLine * (1 + kWeightGroupValues / 4) * (kVectors / kHalf));
      const auto fetch_next = [&] {
        __builtin_prefetch(next, 0, 2);
        __builtin_prefetch(next + kLine, 0, 2);
        next += 2 * kLine;
      };
      for (int half = 0; half < kVectors / kHalf; ++half) {
        if (streams) fetch_next();
        IntSums<Isa, kRows, kHalf> sums[kParts];
#pragma GCC unroll 2
        for (int part = 0; part < kParts; ++part) Start<kRows, kHalf>(x, x_stride, part, sums[part]);
        const char* scales = panel + half * kHalf * static_cast<int64_t>(sizeof(Vec));
        const char* weights = panel + kScaleBytes + half * kHalf * 4 * Isa::kLanes;
        for (int k = 0; k < kWeightGroupValues; k += 4, weights += 4 * kVectors * Isa::kLanes) {
          if (streams) {
            fetch_next();
          } else {
            ahead.FetchAll();
          }
#pragma GCC unroll 2
          for (int part = 0; part < kParts; ++part) {
            typename Isa::Ints row[kHalf];
#pragma GCC unroll 2
            for (int j = 0; j < kHalf; ++j) {
              row[j] = Unsigned(LoadInts<Isa>(weights + part * kPartBytes + 4 * j * Isa::kLanes));
            }
            AddBytes<Isa, kRows, kHalf>(x, x_stride, part * kWeightGroupValues + k, row, sums[part]);
          }
        }
        Vec scale[kParts][kHalf];
        for (int part = 0; part < kParts; ++part) {
          for (int j = 0; j < kHalf; ++j) {
            __builtin_memcpy(&scale[part][j], scales + part * kPartBytes + j * sizeof(Vec), sizeof(Vec));
          }
        }
        float* to = c + half * kHalf * Isa::kLanes;
#pragma GCC unroll 6
        for (int i = 0; i < kRows; ++i, to += c_stride) {
          const Vec x_scale = Isa::Set(x[i * x_stride].scale);
#pragma GCC unroll 2
          for (int j = 0; j < kHalf; ++j) {
            const Vec first = ToFloat<Isa>(sums[0][i][j]) * scale[0][j];
            const Vec before = Load<Isa>(to + j * Isa::kLanes);
            Store<Isa>(AddGroup<Isa>(first, ToFloat<Isa>(sums[1][i][j]), scale[1][j], x_scale, before),
                       to + j * Isa::kLanes);
          }
        }
      }
    }
  }

  // Sums that correct what the weights' offset adds.
  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void Start(const Int8Group* x, int64_t x_stride, int part,
                                           IntSums<Isa, kRows, kVectors>& sums) {
    StartSums<Isa, kRows, kVectors>(sums, [&](int i) {
      const auto& corrections = x[i * x_stride].corrections[part];
      return Isa::SetInts(kInt8Offset / kInt4Offset * (corrections[0] + corrections[1]));
    });
  }

  [[gnu::always_inline]] static typename Isa::Ints Unsigned(typename Isa::Ints weights) {
    return kLayout == Int8Layout::kFours ? weights ^ Isa::SetInts(kSignBits) : weights;
  }
};

// The low half of every byte.
alignas(64) constexpr unsigned char kLowHalves[64] = {15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
                                                      15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
                                                      15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
                                                      15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15};

// 4-bit weights, multiplied as stored, with the offset. Where there is no dot product of four bytes, sums of 32
// products are 16-bit numbers: the correction of the offset is in from the start, so the result is at most 32 * 8 * 127
// in size and fits; what overflows on the way does so modulo 2^16.
template <class Isa_>
struct Int4Product {
  using Isa = Isa_;
  using Operand = Int8Operand<Isa>;
  using Weight = Int4Column;
  static constexpr int kPair = 1, kParts = 2;
  static constexpr int64_t Steps(int64_t depth) { return depth * kGroupValues / 4; }

  template <int kRows, int kVectors, int kPanels = 1>
  static void Multiply(const PanelTask<Int4Product>& task) {
    MultiplyGroups<Int4Product, kRows, kVectors, kPanels>(task);
  }

  template <int kRows, int kVectors, int kPanels>
  [[gnu::always_inline]] static void SumPart(const Int8Group* x, int64_t x_stride, int part, const char* weights,
                                             PanelVectors<kVectors, kPanels> vectors, Ahead& ahead,
                                             IntSums<Isa, kRows, kVectors * kPanels>& sums) {
    StartSums<Isa, kRows, kVectors * kPanels>(sums, [&](int i) {
      const auto& corrections = x[i * x_stride].corrections[part];
      if constexpr (kDotsBytes<Isa>) return Isa::SetInts(corrections[0] + corrections[1]);
      return Broadcast<Isa>(corrections);
    });
    const int first = part * kWeightGroupValues;
    AddHalf<0, kRows>(x, x_stride, first, weights, vectors, ahead, sums);
    AddHalf<4, kRows>(x, x_stride, first + kWeightGroupValues / 2, weights, vectors, ahead, sums);
    if constexpr (kDotsBytes<Isa>) return;
    const typename Isa::Ints ones = Isa::SetInts(0x00010001);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < vectors.kCount; ++j) sums[i][j] = Isa::MulWords(sums[i][j], ones);
    }
  }

 private:
  // 32 inputs, whose weights are the halves from bit kShift on.
  template <int kShift, int kRows, int kVectors, int kPanels>
  [[gnu::always_inline]] static void AddHalf(const Int8Group* x, int64_t x_stride, int first, const char* weights,
                                             PanelVectors<kVectors, kPanels> vectors, Ahead& ahead,
                                             IntSums<Isa, kRows, kVectors * kPanels>& sums) {
    const HalfAhead<vectors.kCount> half(ahead, 4 * Isa::kLanes);
    const unsigned char* low_halves = kLowHalves;
#pragma GCC unroll 1
    for (int k = first; k < first + kWeightGroupValues / 2; k += 4, weights += 4 * kVectors * Isa::kLanes) {
      ahead.Fetch();
      // Makes the compiler load the mask every time: it has no register to keep it in.
      asm("" : "+r"(low_halves));
      typename Isa::Ints row[vectors.kCount];
#pragma GCC unroll 8
      for (int j = 0; j < vectors.kCount; ++j) {
        const char* from = weights + vectors.Offset(j, 4 * Isa::kLanes);
        if (kShift == 0 && ahead.stream > 0) {
          if (ahead.tiles > 1) {
            half.Fetch(j, from);
          } else {
            __builtin_prefetch(from + ahead.stream, 0, 2);
          }
        }
        row[j] = LoadInts<Isa>(from) >> kShift & LoadInts<Isa>(low_halves);
      }
      AddBytes<Isa, kRows, vectors.kCount>(x, x_stride, k, row, sums);
      if constexpr (!kDotsBytes<Isa>) KeepInRegisters<Isa, kRows, vectors.kCount>(sums);
    }
  }
};

}  // namespace
}  // namespace sightline::cpu
