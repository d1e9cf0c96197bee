// Private: products in tiles, for processors that multiply 16 rows of 64 bytes by as much at once (AMX). Up to 32 rows
// of x are copied into tiles of their own, so that a tile is 1 KB of memory whatever the stride of x, and what lies
// beyond its last row and its depth is zero. Weights, keys and values are tiles as they lie in their panels (a step of
// 16 lanes deep is 16 rows of the panel). Rows of a tile do not meet, and k goes up in steps from the start, so the
// bits of a row do not depend on the number of rows.
#pragma once

#include <cstdint>

#include "backend/cpu/integer_products.inl.h"
#include "backend/cpu/matmul.inl.h"

namespace sightline::cpu {
namespace {

constexpr int kTileHeight = 16;
constexpr int64_t kTileRowBytes = 64;
constexpr int64_t kTileSize = kTileHeight * kTileRowBytes;
// Depth that is copied at once, in steps: both tiles of rows stay in the first-level cache beside the weights.
constexpr int64_t kStepsAtOnce = 16;

template <int kIndex>
struct Constant {
  static constexpr int value = kIndex;
};

// body(Constant<i>) for i < kCount: tiles are named by numbers known to the compiler.
template <int kCount, class Body>
[[gnu::always_inline]] inline void Each(Body body) {
  if constexpr (kCount > 0) body(Constant<0>());
  if constexpr (kCount > 1) body(Constant<1>());
  if constexpr (kCount > 2) body(Constant<2>());
  if constexpr (kCount > 3) body(Constant<3>());
}

// While it lives, this thread has tiles.
template <class Isa>
struct TileUse {
  TileUse() { Isa::Tiles::Use(); }
  ~TileUse() { Isa::Tiles::Release(); }
  TileUse(const TileUse&) = delete;
  TileUse& operator=(const TileUse&) = delete;
};

// One or two tiles of rows by up to four or two of columns: their sums are tiles 0 to 3, x and the panel the others.
template <class Isa, int kRowTiles_, int kColumnTiles_>
struct TileBlock {
  using Tiles = typename Isa::Tiles;
  static constexpr int kRowTiles = kRowTiles_, kColumnTiles = kColumnTiles_;
  static_assert(kRowTiles * kColumnTiles <= 4 && kRowTiles <= 2);
  static constexpr int Sum(int i, int j) { return i * kColumnTiles + j; }
  static constexpr int OfRows(int i) { return 4 + i; }
  static constexpr int OfPanel(int j) { return kRowTiles == 1 ? 5 + j % 3 : 6 + j; }

  [[gnu::always_inline]] static void Clear() {
    Each<kRowTiles * kColumnTiles>([](auto sum) { Tiles::template Zero<sum.value>(); });
  }

  // dot(sum, tile of rows, tile of the panel) for all, with the tiles of x at `rows` (kStepsAtOnce apart), those of the
  // panel at `panel`.
  template <class Dot>
  [[gnu::always_inline]] static void Step(const char* rows, const char* panel, int64_t panel_stride, Dot dot) {
    Each<kRowTiles>([&](auto i) {
      Tiles::template Load<OfRows(i.value)>(rows + i.value * kStepsAtOnce * kTileSize, kTileRowBytes);
    });
    Each<kColumnTiles>([&](auto j) {
      Tiles::template Load<OfPanel(j.value)>(panel + j.value * kTileRowBytes, panel_stride);
      Each<kRowTiles>([&](auto i) {
        dot(Constant<Sum(i.value, j.value)>(), Constant<OfRows(i.value)>(), Constant<OfPanel(j.value)>());
      });
    });
  }

  // The same for sums that begin anew: each is stored, where `store`, and cleared right before it is needed, while the
  // others are busy.
  template <class Dot>
  [[gnu::always_inline]] static void StepAnew(const char* rows, const char* panel, int64_t panel_stride, bool store,
                                              int32_t* to, Dot dot) {
    Each<kColumnTiles>([&](auto j) {
      Each<kRowTiles>([&](auto i) {
        constexpr int kSum = Sum(i.value, j.value);
        if (store) StoreSum<i.value, j.value>(to, kColumnTiles * Isa::kLanes);
        Tiles::template Zero<kSum>();
        if constexpr (j.value == 0) {
          Tiles::template Load<OfRows(i.value)>(rows + i.value * kStepsAtOnce * kTileSize, kTileRowBytes);
        }
        if constexpr (i.value == 0) {
          Tiles::template Load<OfPanel(j.value)>(panel + j.value * kTileRowBytes, panel_stride);
        }
        dot(Constant<kSum>(), Constant<OfRows(i.value)>(), Constant<OfPanel(j.value)>());
      });
    });
  }

  [[gnu::always_inline]] static void LoadSums(const float* c, int64_t c_stride) {
    Each<kRowTiles>([&](auto i) {
      Each<kColumnTiles>([&](auto j) {
        Tiles::template Load<Sum(i.value, j.value)>(c + i.value * kTileHeight * c_stride + j.value * Isa::kLanes,
                                                    c_stride * static_cast<int64_t>(sizeof(float)));
      });
    });
  }

  template <class Number>
  [[gnu::always_inline]] static void StoreSums(Number* c, int64_t c_stride) {
    Each<kRowTiles>([&](auto i) { Each<kColumnTiles>([&](auto j) { StoreSum<i.value, j.value>(c, c_stride); }); });
  }

 private:
  template <int kRow, int kColumn, class Number>
  [[gnu::always_inline]] static void StoreSum(Number* c, int64_t c_stride) {
    Tiles::template Store<Sum(kRow, kColumn)>(c + kRow * kTileHeight * c_stride + kColumn * Isa::kLanes,
                                              c_stride * static_cast<int64_t>(sizeof(Number)));
  }
};

// Calls multiply(TileBlock, first column) until all columns of a panel are done.
template <class Isa, class Multiply>
[[gnu::always_inline]] inline void EachBlock(int64_t rows, int64_t columns, Multiply multiply) {
  constexpr int64_t kLanes = Isa::kLanes;
  if (rows > kTileHeight) {
    for (int64_t column = 0; column < columns; column += 2 * kLanes) {
      if (columns - column > kLanes) {
        multiply(TileBlock<Isa, 2, 2>(), column);
      } else {
        multiply(TileBlock<Isa, 2, 1>(), column);
      }
    }
  } else if (columns == 4 * kLanes) {
    multiply(TileBlock<Isa, 1, 4>(), int64_t{0});
  } else {
    for (int64_t column = 0; column < columns; column += kLanes) multiply(TileBlock<Isa, 1, 1>(), column);
  }
}

// Copies `bytes` of every row into tiles, `rows` of them at most two tiles' height, and fills up with zeros.
inline void CopyIntoTiles(const char* x, int64_t x_stride, int64_t rows, int64_t bytes, char* tiles) {
  const int64_t whole = bytes / kTileRowBytes, rest = bytes % kTileRowBytes;
  const int64_t height = rows > kTileHeight ? 2 * kTileHeight : kTileHeight;
  for (int64_t i = 0; i < height; ++i) {
    char* to = tiles + i / kTileHeight * kStepsAtOnce * kTileSize + i % kTileHeight * kTileRowBytes;
    if (i >= rows) {
      for (int64_t step = 0; step < whole + (rest > 0); ++step) {
        __builtin_memset(to + step * kTileSize, 0, kTileRowBytes);
      }
      continue;
    }
    const char* from = x + i * x_stride;
    for (int64_t step = 0; step < whole; ++step) {
      __builtin_memcpy(to + step * kTileSize, from + step * kTileRowBytes, kTileRowBytes);
    }
    if (rest == 0) continue;
    __builtin_memset(to + whole * kTileSize, 0, kTileRowBytes);
    __builtin_memcpy(to + whole * kTileSize, from + whole * kTileRowBytes, static_cast<size_t>(rest));
  }
}

// bfloat16 times bfloat16.
template <class Isa_>
struct TilePairProduct {
  using Isa = Isa_;
  using Operand = BF16Operand<Isa>;
  using Weight = uint16_t;
  using Tiles = typename Isa::Tiles;
  static constexpr int kPair = 2, kParts = 1;
  static constexpr int64_t kStepDepth = kTileRowBytes / static_cast<int64_t>(sizeof(uint16_t));
  static constexpr int64_t Steps(int64_t depth) { return (depth + kStepDepth - 1) / kStepDepth; }

  struct PackedRows {
    alignas(64) char tiles[2 * kStepsAtOnce * kTileSize];
    int64_t rows;

    void Copy(const uint16_t* x, int64_t x_stride, int64_t count, int64_t depth) {
      rows = count;
      CopyIntoTiles(reinterpret_cast<const char*>(x), x_stride * static_cast<int64_t>(sizeof *x), count,
                    depth * static_cast<int64_t>(sizeof *x), tiles);
    }
  };

  // c = x * panel, or c += where `resume`, for the rows of x copied and up to the next whole tile.
  static void Multiply(const PackedRows& x, const PanelTask<TilePairProduct>& task, int64_t columns) {
    const int64_t steps = task.depth / kStepDepth, rest = task.depth % kStepDepth;
    alignas(64) uint16_t last[kStepDepth * Isa::kLanes * Isa::kPanelVectors];
    if (rest > 0) CopyRest(task.panel + steps * kStepDepth * columns, rest, columns, last);
    Ahead ahead = task.ahead;
    EachBlock<Isa>(x.rows, columns, [&](auto block, int64_t column) {
      using Block = decltype(block);
      const auto dot = [](auto sum, auto a, auto b) { Tiles::template DotPairs<sum.value, a.value, b.value>(); };
      const int64_t stride = columns * static_cast<int64_t>(sizeof(uint32_t));
      if (task.resume) {
        Block::LoadSums(task.c + column, task.c_stride);
      } else {
        Block::Clear();
      }
      const char* rows = x.tiles;
      const char* panel = reinterpret_cast<const char*>(task.panel + 2 * column);
      for (int64_t step = 0; step < steps; ++step, rows += kTileSize, panel += kTileHeight * stride) {
        Block::Step(rows, panel, stride, dot);
        ahead.FetchLines(Block::kColumnTiles);
      }
      if (rest > 0) Block::Step(rows, reinterpret_cast<const char*>(last + 2 * column), stride, dot);
      Block::StoreSums(task.c + column, task.c_stride);
    });
  }

 private:
  // What follows the last row of a panel is not part of it and may be anything.
  static void CopyRest(const uint16_t* panel, int64_t depth, int64_t columns, uint16_t* to) {
    const int64_t pairs = depth / 2;
    __builtin_memcpy(to, panel, static_cast<size_t>(pairs * 2 * columns) * sizeof *to);
    __builtin_memset(to + pairs * 2 * columns, 0, static_cast<size_t>((kStepDepth - pairs * 2) * columns) * sizeof *to);
    if (depth % 2 == 0) return;
    for (int64_t j = 0; j < columns; ++j) to[pairs * 2 * columns + 2 * j] = panel[pairs * 2 * columns + 2 * j];
  }
};

// 8-bit weights, stored signed: a group of 64 is one step, whose sums are scaled and added up outside the tiles.
template <class Isa_>
struct TileInt8Product {
  using Isa = Isa_;
  using Operand = Int8Operand<Isa>;
  using Weight = Int8Column;
  using Tiles = typename Isa::Tiles;
  // Reads memory faster, and a few rows wait for nothing else.
  using OfFewRows = Int8ByteProduct<Isa, Int8Layout::kFours>;
  static constexpr int kPair = 1, kParts = 2;
  static constexpr int64_t kStepDepth = 1;  // a group, which is kParts steps
  static constexpr int64_t Steps(int64_t depth) { return depth * kParts; }
  static constexpr int64_t kMostGroups = kStepsAtOnce / kParts;
  static_assert(kWeightGroupValues == kTileRowBytes);

  struct PackedRows {
    alignas(64) char tiles[2 * kStepsAtOnce * kTileSize];
    float scales[kMostGroups][2 * kTileHeight];
    int64_t rows;

    void Copy(const Int8Group* x, int64_t x_stride, int64_t count, int64_t depth) {
      rows = count;
      for (int64_t group = 0; group < depth; ++group) {
        CopyIntoTiles(reinterpret_cast<const char*>(x[group].bytes), x_stride * static_cast<int64_t>(sizeof *x), count,
                      kGroupValues, tiles + group * kParts * kTileSize);
        for (int64_t i = 0; i < count; ++i) scales[group][i] = x[i * x_stride + group].scale;
      }
    }
  };

  static void Multiply(const PackedRows& x, const PanelTask<TileInt8Product>& task, int64_t columns) {
    constexpr int64_t kMostSums = 4 * kTileHeight * Isa::kLanes;
    alignas(64) int32_t sums[2][kMostSums];
    Ahead ahead = task.ahead;
    EachBlock<Isa>(x.rows, columns, [&](auto block, int64_t column) {
      using Block = decltype(block);
      const int64_t stride = columns * static_cast<int64_t>(sizeof(int32_t)), parts = kParts * task.depth;
      const char* rows = x.tiles;
      const char* panel = reinterpret_cast<const char*>(task.panel) + column * static_cast<int64_t>(sizeof(int32_t));
      const auto add_scaled = [&](int64_t part, const char* weight_scales) {
        AddScaled<Block::kColumnTiles>(sums[part % 2], x.rows, x.scales[part / kParts], weight_scales,
                                       !task.resume && part == 0, task.c + column, task.c_stride);
      };
      const int64_t part_bytes = (1 + kTileHeight) * stride;
      for (int64_t part = 0; part < parts; ++part, rows += kTileSize, panel += part_bytes) {
        Block::StepAnew(rows, panel + stride, stride, part > 0, sums[(part + 1) % 2],
                        [](auto sum, auto a, auto b) { Tiles::template DotBytes<sum.value, a.value, b.value>(); });
        ahead.FetchLines(Block::kColumnTiles);
        // While the tiles are busy. The sums of the part before would not be there yet.
        if (part > 1) add_scaled(part - 2, panel - 2 * part_bytes);
      }
      Block::StoreSums(sums[(parts - 1) % 2], Block::kColumnTiles * Isa::kLanes);
      if (parts > 1) add_scaled(parts - 2, panel - 2 * part_bytes);
      add_scaled(parts - 1, panel - part_bytes);
    });
  }

 private:
  // c += sums * scales of x * scales of the weights, or c = where `fresh`.
  template <int kVectors>
  static void AddScaled(const int32_t* sums, int64_t rows, const float* row_scales, const char* weight_scales,
                        bool fresh, float* c, int64_t c_stride) {
    using Vec = typename Isa::Vec;
    Vec scales[kVectors];
    __builtin_memcpy(scales, weight_scales, sizeof scales);
    for (int64_t i = 0; i < rows; ++i, c += c_stride) {
      const Vec scale = Isa::Set(row_scales[i]);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        typename Isa::Ints sum;
        __builtin_memcpy(&sum, sums + (i * kVectors + j) * Isa::kLanes, sizeof sum);
        const Vec before = fresh ? Isa::Set(0.0f) : Load<Isa>(c + j * Isa::kLanes);
        Store<Isa>(Isa::MulAdd(ToFloat<Isa>(sum), scale * scales[j], before), c + j * Isa::kLanes);
      }
    }
  }
};

// Depth of the parts that are copied at once: as many as needed, all alike, of whole steps.
template <class Product>
constexpr int64_t DepthAtOnce(int64_t depth) {
  constexpr int64_t kMost = kStepsAtOnce * Product::kStepDepth / Product::kParts;
  const int64_t parts = (depth + kMost - 1) / kMost;
  return RoundUp((depth + parts - 1) / parts, Product::kStepDepth);
}

// Rows of x in tiles, for several panels.
template <class Product>
class RowsInTiles {
 public:
  static constexpr bool Fit(int64_t rows, int64_t depth) {
    return rows <= 2 * kTileHeight && depth <= DepthAtOnce<Product>(depth);
  }

  RowsInTiles(const typename Product::Operand::Element* x, int64_t x_stride, int64_t rows, int64_t depth) {
    packed_.Copy(x, x_stride, rows, depth);
  }

  // The task's x is these rows.
  void Multiply(const PanelTask<Product>& task, int64_t columns) const { Product::Multiply(packed_, task, columns); }

 private:
  const TileUse<typename Product::Isa> use_;
  typename Product::PackedRows packed_;
};

// What MultiplyPanel does for other products.
template <class Product, class Finish>
void MultiplyPanelInTiles(PanelTask<Product> task, int64_t rows, int64_t columns, Finish finish) {
  const int64_t depth = task.depth, depth_at_once = DepthAtOnce<Product>(depth);
  const TileUse<typename Product::Isa> use;
  typename Product::PackedRows packed;
  for (int64_t row = 0; row < rows; row += 2 * kTileHeight) {
    const int64_t count = Smaller(rows - row, 2 * kTileHeight);
    PanelTask<Product> part = task;
    for (int64_t k = 0; k < depth; k += depth_at_once) {
      part.depth = Smaller(depth - k, depth_at_once);
      part.panel = task.panel + k * columns;
      part.resume = task.resume || k > 0;
      packed.Copy(task.x + k, task.x_stride, count, part.depth);
      Product::Multiply(packed, part, columns);
    }
    finish(row, count, task.c);
    task.x += count * task.x_stride;
    task.c += count * task.c_stride;
  }
}

// What Multiply does for other products.
template <class Product, class Finish>
void MultiplyInTiles(const MatmulTask& task, Finish finish) {
  using Isa = typename Product::Isa;
  constexpr int64_t kPanelColumns = Isa::kLanes * Isa::kPanelVectors, kRows = 2 * kTileHeight;
  const PanelLayout layout(Isa::kLanes, kPanelColumns, Product::kPair, task.outputs, task.depth);
  const auto* x = static_cast<const typename Product::Operand::Element*>(task.x);
  const auto* weights = static_cast<const typename Product::Weight*>(task.weights);
  const int64_t c_stride = ProductStride(task.column_end - task.column_begin, kPanelColumns);
  const int64_t depth_at_once = DepthAtOnce<Product>(task.depth);
  const TileUse<Isa> use;
  typename Product::PackedRows packed;
  const int64_t row_tiles = (task.row_end - task.row_begin + kRows - 1) / kRows;
  // Brought near during one panel and part of the depth: a share of what this task or, as a rule, this thread's next
  // one reads after these weights.
  const auto ahead = [&](int64_t row, int64_t k, int64_t column, int64_t depth, int64_t width) {
    const int64_t row_tile = (row - task.row_begin) / kRows, steps = Product::Steps(depth) * width / Isa::kLanes;
    const auto* panel = weights + layout.offset(column) + k * width;
    const int64_t share = depth * width / row_tiles;
    const auto* next = panel + depth * width + row_tile * share;
    if (task.order == MatmulOrder::kRows) next += task.depth * (task.column_end - task.column_begin) - depth * width;
    return Ahead{reinterpret_cast<const char*>(next), share * static_cast<int64_t>(sizeof *next) / steps + 1};
  };
  const auto multiply = [&](int64_t row, int64_t k, int64_t column_begin, int64_t column_end) {
    const int64_t rows = Smaller(kRows, task.row_end - row), depth = Smaller(depth_at_once, task.depth - k);
    packed.Copy(x + row * task.x_stride + k, task.x_stride, rows, depth);
    for (int64_t column = column_begin; column < column_end; column += kPanelColumns) {
      const int64_t width = layout.width(column);
      float* c = task.product + (row - task.row_begin) * c_stride + column - task.column_begin;
      Product::Multiply(packed,
                        {.x = nullptr,
                         .x_stride = 0,
                         .panel = weights + layout.offset(column) + k * width,
                         .depth = depth,
                         .c = c,
                         .c_stride = c_stride,
                         .resume = k > 0,
                         .ahead = ahead(row, k, column, depth, width)},
                        width);
      if (k + depth == task.depth) finish(FinishedTile{row, rows, column, width, c, c_stride});
    }
  };
  switch (task.order) {
    case MatmulOrder::kPanels:
      for (int64_t column = task.column_begin; column < task.column_end; column += kPanelColumns) {
        for (int64_t k = 0; k < task.depth; k += depth_at_once) {
          for (int64_t row = task.row_begin; row < task.row_end; row += kRows) {
            multiply(row, k, column, Smaller(column + kPanelColumns, task.column_end));
          }
        }
      }
      return;
    case MatmulOrder::kDepth:
      for (int64_t k = 0; k < task.depth; k += depth_at_once) {
        for (int64_t row = task.row_begin; row < task.row_end; row += kRows) {
          multiply(row, k, task.column_begin, task.column_end);
        }
      }
      return;
    case MatmulOrder::kRows:
      for (int64_t row = task.row_begin; row < task.row_end; row += kRows) {
        for (int64_t k = 0; k < task.depth; k += depth_at_once) {
          multiply(row, k, task.column_begin, task.column_end);
        }
      }
  }
}

}  // namespace
}  // namespace sightline::cpu
