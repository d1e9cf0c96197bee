// Private: the inner loop of everything. A tile is up to 6 rows of x times one panel, its sums kept in registers over
// the whole depth; every element is summed in order of k by one chain of multiply-adds, whatever the tile it falls
// into, so its bits do not depend on the number of rows. The products of integer formats are in integer_products.inl.h,
// those in tiles of the processor's in tiles.inl.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/panels.inl.h"
#include "backend/cpu/sinks.inl.h"

namespace sightline::cpu {
namespace {

// Number formats of the left-hand side ("operands"), and how vectors are stored in them.
template <class Isa_>
struct F32Operand {
  using Isa = Isa_;
  using Element = float;
  using Sink = StoreF32<Isa>;
  static constexpr int kPair = 1;
};

template <class Isa_>
struct BF16Operand {
  using Isa = Isa_;
  using Element = uint16_t;
  using Sink = StoreBF16<Isa>;
  static constexpr int kPair = 2;
};

template <class Isa, int kRows, int kVectors>
using Sums = typename Isa::Vec[kRows][kVectors];

template <class Isa>
typename Isa::Bits LoadBits(const uint16_t* from) {
  typename Isa::Bits bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  return bits;
}

// Memory that will be read soon, brought nearer a cache line with each step of the inner loop.
struct Ahead {
  const char* at = nullptr;
  int64_t step = 0;
  // Where weights come from memory as they lie, and else 0: how far ahead of each load. For products that know it; the
  // others go by `at` and `step`.
  int64_t stream = 0;
  // Of one or two tiles that read the same in turn, which this is: each brings near its part of a row's vectors.
  int tile = 0, tiles = 1;

  [[gnu::always_inline]] void Fetch() {
    __builtin_prefetch(at, 0, 2);
    at += step;
  }
  // Also what lies between steps of more than a line: for few rows, whose steps are long.
  [[gnu::always_inline]] void FetchAll() {
    if (step > 64) __builtin_prefetch(at + step / 2, 0, 2);
    Fetch();
  }
  // All cache lines of so many steps.
  [[gnu::always_inline]] void FetchLines(int64_t steps) {
    const char* end = at + steps * step;
    for (; at < end; at += 64) __builtin_prefetch(at, 0, 2);
  }
};

// sums += x[:, k] * row k of the panel.
template <class Isa, int kRows, int kVectors>
[[gnu::always_inline]] inline void AddOuterProduct(const float* x, int64_t x_stride,
                                                   const typename Isa::Vec (&row)[kVectors],
                                                   Sums<Isa, kRows, kVectors>& sums) {
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
    const typename Isa::Vec a = Isa::Set(x[i * x_stride]);
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) sums[i][j] = Isa::MulAdd(a, row[j], sums[i][j]);
  }
}

// Products of groups are added up one by one, so the depth may be cut anywhere between two of them.
template <class Product>
inline constexpr bool kAddsGroups = requires {
  Product::kParts;
};

// Rows of x times (part of) a panel: c = x * panel, or c += where `resume`.
template <class Product>
struct PanelTask {
  const typename Product::Operand::Element* x;
  int64_t x_stride;
  const typename Product::Weight* panel;
  int64_t second_panel = 0;  // bytes to the next panel, where two are multiplied at once
  int64_t depth;
  float* c;
  int64_t c_stride;
  bool resume = false;
  Ahead ahead = {};
  OutputRows output = {};  // where c will go
};

// A tile of a product whose sums stay in registers: Product::Accumulate adds to them.
template <class Product, int kRows, int kVectors>
void MultiplyInRegisters(const PanelTask<Product>& task) {
  using Isa = typename Product::Isa;
  Sums<Isa, kRows, kVectors> sums;
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) sums[i][j] = Isa::Set(0.0f);
  }
  Product::template Accumulate<kRows, kVectors>(task.x, task.x_stride, task.panel, task.depth, task.ahead, sums);
  float* c = task.c;
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i, c += task.c_stride) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      if (task.resume) sums[i][j] += Load<Isa>(c + j * Isa::kLanes);
      Store<Isa>(sums[i][j], c + j * Isa::kLanes);
    }
  }
}

// float32 times float32.
template <class Isa_>
struct F32Product {
  using Isa = Isa_;
  using Operand = F32Operand<Isa>;
  using Weight = float;
  static constexpr int kPair = 1;
  static constexpr int64_t Steps(int64_t depth) { return depth; }

  template <int kRows, int kVectors>
  static void Multiply(const PanelTask<F32Product>& task) {
    MultiplyInRegisters<F32Product, kRows, kVectors>(task);
  }

  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void Accumulate(const float* x, int64_t x_stride, const float* panel, int64_t depth,
                                                Ahead ahead, Sums<Isa, kRows, kVectors>& sums) {
    for (int64_t k = 0; k < depth; ++k, panel += kVectors * Isa::kLanes) {
      ahead.Fetch();
      typename Isa::Vec row[kVectors];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) row[j] = Load<Isa>(panel + j * Isa::kLanes);
      AddOuterProduct<Isa, kRows, kVectors>(x + k, x_stride, row, sums);
    }
  }
};

// float32 times bfloat16 widened on the way: where the processor has no bfloat16 arithmetic.
template <class Isa_>
struct WideningProduct {
  using Isa = Isa_;
  using Operand = F32Operand<Isa>;
  using Weight = uint16_t;
  static constexpr int kPair = 2;
  static constexpr int64_t Steps(int64_t depth) { return depth / 2 + 1; }

  template <int kRows, int kVectors>
  static void Multiply(const PanelTask<WideningProduct>& task) {
    MultiplyInRegisters<WideningProduct, kRows, kVectors>(task);
  }

  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void Accumulate(const float* x, int64_t x_stride, const uint16_t* panel, int64_t depth,
                                                Ahead ahead, Sums<Isa, kRows, kVectors>& sums) {
    using Vec = typename Isa::Vec;
    for (int64_t k = 0; k < depth; k += 2, panel += 2 * kVectors * Isa::kLanes) {
      ahead.Fetch();
      Vec row[kVectors];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) row[j] = (Vec)(LoadBits<Isa>(panel + 2 * j * Isa::kLanes) << 16);
      AddOuterProduct<Isa, kRows, kVectors>(x + k, x_stride, row, sums);
      if (k + 1 == depth) return;
      // Makes the compiler load the pairs again: it has no registers to keep them in.
      asm("" : "+r"(panel));
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) row[j] = (Vec)(LoadBits<Isa>(panel + 2 * j * Isa::kLanes) & 0xffff0000u);
      AddOuterProduct<Isa, kRows, kVectors>(x + k + 1, x_stride, row, sums);
    }
  }
};

// bfloat16 times bfloat16, two k in one instruction.
template <class Isa_>
struct PairProduct {
  using Isa = Isa_;
  using Operand = BF16Operand<Isa>;
  using Weight = uint16_t;
  static constexpr int kPair = 2;
  static constexpr int64_t Steps(int64_t depth) { return depth / 2 + 1; }

  template <int kRows, int kVectors>
  static void Multiply(const PanelTask<PairProduct>& task) {
    MultiplyInRegisters<PairProduct, kRows, kVectors>(task);
  }

  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void Accumulate(const uint16_t* x, int64_t x_stride, const uint16_t* panel,
                                                int64_t depth, Ahead ahead, Sums<Isa, kRows, kVectors>& sums) {
    for (int64_t k = 0; k < depth - 1; k += 2, panel += 2 * kVectors * Isa::kLanes) {
      ahead.Fetch();
      AddDots<kRows, kVectors, sizeof(uint32_t)>(x + k, x_stride, panel, sums);
    }
    // The other half of the last pair would be the next row of x, and zero times that can be NaN.
    // The same holds for the other half in the panel.
    if (depth % 2 != 0) AddDots<kRows, kVectors, sizeof(uint16_t)>(x + depth - 1, x_stride, panel, sums);
  }

 private:
  template <int kRows, int kVectors, size_t kPairBytes>
  [[gnu::always_inline]] static void AddDots(const uint16_t* x, int64_t x_stride, const uint16_t* panel,
                                             Sums<Isa, kRows, kVectors>& sums) {
    typename Isa::Bits row[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      row[j] = LoadBits<Isa>(panel + 2 * j * Isa::kLanes);
      if constexpr (kPairBytes == sizeof(uint16_t)) row[j] &= 0xffffu;
    }
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      uint32_t pair = 0;
      __builtin_memcpy(&pair, x + i * x_stride, kPairBytes);
      const typename Isa::Bits a = Isa::SetPair(pair);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sums[i][j] = Isa::DotPairs(a, row[j], sums[i][j]);
    }
  }
};

// Elements of a row of x that one element of the weights belongs to: more than one where only the weights lie in
// groups.
template <class Product>
inline constexpr int64_t kInputsOfWeight = 1;

template <class Product, int kRows, int kVectors>
[[gnu::noinline]] void Tile(const PanelTask<Product>& task) {
  Product::template Multiply<kRows, kVectors>(task);
}

// So few rows that the sums of two panels fit into registers. Two streams of weights come from memory faster than one.
constexpr int kTwoPanelRows = 2;
template <class Product>
inline constexpr bool kMultipliesTwoPanels = requires(const PanelTask<Product>& task) {
  Product::template Multiply<1, 1, 2>(task);
};
template <class Product, int kRows>
[[gnu::noinline]] void TwoPanels(const PanelTask<Product>& task) {
  Product::template Multiply<kRows, Product::Isa::kPanelVectors, 2>(task);
}

template <class Product>
using TileFunction = void (*)(const PanelTask<Product>& task);

// By rows - 1.
template <class Product, int kVectors>
constexpr TileFunction<Product> kTiles[kTileRows] = {
    Tile<Product, 1, kVectors>, Tile<Product, 2, kVectors>, Tile<Product, 3, kVectors>,
    Tile<Product, 4, kVectors>, Tile<Product, 5, kVectors>, Tile<Product, 6, kVectors>,
};

template <class Product>
constexpr TileFunction<Product> kTwoPanels[kTwoPanelRows] = {TwoPanels<Product, 1>, TwoPanels<Product, 2>};

template <class Product>
const TileFunction<Product>* TilesFor(int64_t columns) {
  constexpr int kLanes = Product::Isa::kLanes;
  if constexpr (kMultipliesTwoPanels<Product>) {
    if (columns == 2 * Product::Isa::kPanelVectors * kLanes) return kTwoPanels<Product>;
  }
  if constexpr (Product::Isa::kPanelVectors == 4) {
    if (columns == 4 * kLanes) return kTiles<Product, 4>;
    if (columns == 3 * kLanes) return kTiles<Product, 3>;
  }
  return columns == kLanes ? kTiles<Product, 1> : kTiles<Product, 2>;
}

// Products that are computed in tiles of the processor's: see tiles.inl.h.
template <class Product>
inline constexpr bool kInTiles = requires {
  Product::TileBytes(1);
};
template <class Product, class Finish>
void MultiplyPanelInTiles(PanelTask<Product> task, int64_t rows, int64_t columns, Finish finish);
template <class Product, class Finish>
void MultiplyInTiles(const MatmulTask& task, Finish finish);
template <class Product>
class RowsInTiles;

// From that row of the task and column on.
inline OutputRows OutputOf(const MatmulTask& task, int64_t row, int64_t column) {
  OutputRows output = task.output;
  if (output.at != nullptr) output.at += (task.row_begin + row) * output.stride + column * output.element_bytes;
  return output;
}

// Brings near what a tile will write: stores that miss the caches wait longer than fits into their queue.
inline void FetchToWrite(const OutputRows& output, int64_t rows, int64_t columns) {
  if (output.at == nullptr) return;
  for (int64_t i = 0; i < rows; ++i) {
    const char* row = output.at + i * output.stride;
    for (int64_t j = 0; j < columns * output.element_bytes; j += 64) __builtin_prefetch(row + j, 1, 2);
  }
}

template <class Product, class Finish>
void MultiplyPanelInRegisters(PanelTask<Product> task, int64_t rows, int64_t columns,
                              const typename Product::Weight* next, Finish finish) {
  const TileFunction<Product>* tiles = TilesFor<Product>(columns);
  const int64_t bytes =
      columns * task.depth * static_cast<int64_t>(sizeof(typename Product::Weight)) / kInputsOfWeight<Product>;
  const int64_t tile_count = (rows + kTileRows - 1) / kTileRows;
  const int64_t bytes_per_tile = (bytes + tile_count - 1) / tile_count;
  task.ahead.at = reinterpret_cast<const char*>(next);
  task.ahead.step = bytes_per_tile / Product::Steps(task.depth) + 1;
  for (int64_t row = 0; row < rows; row += kTileRows) {
    const int64_t tile_rows = Smaller(rows - row, kTileRows);
    FetchToWrite(task.output, tile_rows, columns);
    tiles[tile_rows - 1](task);
    finish(row, tile_rows, task.c);
    task.x += kTileRows * task.x_stride;
    task.c += kTileRows * task.c_stride;
    task.ahead.at += bytes_per_tile;
    ++task.ahead.tile;
    if (task.output.at != nullptr) task.output.at += kTileRows * task.output.stride;
  }
}

// The task for all `rows` of x, tile by tile; calls finish(first row, rows, c) after each, with c at its first row.
// Meanwhile brings `next` near: as many bytes as this panel has.
template <class Product, class Finish>
void MultiplyPanel(PanelTask<Product> task, int64_t rows, int64_t columns, const typename Product::Weight* next,
                   Finish finish) {
  if constexpr (kInTiles<Product>) {
    return MultiplyPanelInTiles<Product>(task, rows, columns, finish);
  } else {
    MultiplyPanelInRegisters<Product>(task, rows, columns, next, finish);
  }
}

// Computes the task and calls finish(tile) for every tile that is done.
struct FinishedTile {
  int64_t row, rows;        // of the product
  int64_t column, columns;  // of the product; whole vectors, so possibly more than there are
  const float* c;
  int64_t c_stride;
};

// Where weights are read as they lie, what is this far ahead is brought near: in time for memory, and not too much for
// a second-level cache.
constexpr int64_t kStreamAhead = 48 << 10;
// The same for Ahead::stream: the more rows, the longer a load is used.
constexpr int64_t StreamDistance(int64_t rows) {
  constexpr int64_t kLeast = 4 << 10, kOfRow = 2 << 10;
  return rows * kOfRow > kLeast ? rows * kOfRow : kLeast;
}
// Of a panel, what both tiles multiply before they go on: in the first-level cache for the second.
constexpr int64_t kSharedBytes = 20 << 10;
template <class Weight>
const Weight* AfterThese(const Weight* weights, int64_t bytes) {
  return reinterpret_cast<const Weight*>(reinterpret_cast<const char*>(weights) + bytes);
}

template <class Product, class Finish>
void MultiplyPanels(const MatmulTask& task, Finish finish) {
  using Isa = typename Product::Isa;
  using Element = typename Product::Operand::Element;
  constexpr int kPanelColumns = Isa::kLanes * Isa::kPanelVectors;
  constexpr int64_t kInputs = kInputsOfWeight<Product>, kWeightBytes = sizeof(typename Product::Weight);
  const PanelLayout layout(Isa::kLanes, kPanelColumns, Product::kPair, task.outputs,
                           RoundUp(task.depth, kInputs) / kInputs);
  const auto* x = static_cast<const Element*>(task.x) + task.row_begin * task.x_stride;
  const auto* weights = static_cast<const typename Product::Weight*>(task.weights);
  const int64_t rows = task.row_end - task.row_begin;
  int64_t depth_block = RoundUp(DepthBlock(task.depth, sizeof(Element)), kInputs);
  const int64_t c_stride = ProductStride(task.column_end - task.column_begin, kPanelColumns);
  Ahead ahead;
  if (kAddsGroups<Product> && task.order == MatmulOrder::kPanels) {
    ahead.stream = StreamDistance(rows);
    if (rows > kTileRows) {
      // Both tiles take a few groups each in turn, so that weights come from memory all the time.
      depth_block = kSharedBytes / (kPanelColumns * kWeightBytes);
      ahead.tiles = 2;
    }
  }
  // One panel, or two for twice its width, and of x * panel the sums over one block of the depth.
  const auto multiply = [&](int64_t column, int64_t k, int64_t columns) {
    const int64_t depth = Smaller(depth_block, task.depth - k), width = layout.width(column);
    const auto* panel = weights + layout.offset(column) + k / kInputs * width;
    // What is read later. (After the last one of the task, memory that may not be needed; a hint cannot fault.)
    const auto* next = panel + layout.offset(kPanelColumns);
    if (task.order == MatmulOrder::kPanels) next = AfterThese(panel, kStreamAhead);
    MultiplyPanel<Product>({.x = x + k,
                            .x_stride = task.x_stride,
                            .panel = panel,
                            .second_panel = layout.offset(kPanelColumns) * kWeightBytes,
                            .depth = depth,
                            .c = task.product + column - task.column_begin,
                            .c_stride = c_stride,
                            .resume = k > 0,
                            .ahead = ahead,
                            .output = k + depth < task.depth ? OutputRows() : OutputOf(task, 0, column)},
                           rows, columns, next, [&](int64_t row, int64_t tile_rows, const float* c) {
                             if (k + depth < task.depth) return;
                             finish(FinishedTile{task.row_begin + row, tile_rows, column, columns, c, c_stride});
                           });
  };
  if (task.order == MatmulOrder::kPanels) {
    const bool by_twos = kMultipliesTwoPanels<Product> && rows <= kTwoPanelRows;
    for (int64_t column = task.column_begin, columns = 0; column < task.column_end; column += columns) {
      columns = by_twos && column + 2 * kPanelColumns <= task.column_end ? 2 * kPanelColumns : layout.width(column);
      for (int64_t k = 0; k < task.depth; k += depth_block) multiply(column, k, columns);
    }
  } else {
    for (int64_t k = 0; k < task.depth; k += depth_block) {
      for (int64_t column = task.column_begin; column < task.column_end; column += kPanelColumns) {
        multiply(column, k, layout.width(column));
      }
    }
  }
}

// Those that have another product for a few rows.
template <class Product>
inline constexpr bool kDiffersForFewRows = requires {
  typename Product::OfFewRows;
};

template <class Product, class Finish>
void Multiply(const MatmulTask& task, Finish finish) {
  if constexpr (kDiffersForFewRows<Product>) {
    if (task.row_end - task.row_begin <= kTileRows) {
      return MultiplyPanels<typename Product::OfFewRows>(task, finish);
    }
  }
  if constexpr (kInTiles<Product>) {
    MultiplyInTiles<Product>(task, finish);
  } else {
    MultiplyPanels<Product>(task, finish);
  }
}

}  // namespace
}  // namespace sightline::cpu
