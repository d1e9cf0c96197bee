// Private: products in tiles, for processors that multiply 16 rows of 64 bytes by as much at once (AMX). Rows of x are
// copied into tiles of their own, two side by side for 32 rows, so that a tile is 1 KB of memory whatever the stride of
// x, and what lies beyond its last row and its depth is zero. Weights, keys and values are tiles as they lie in their
// panels (a step of 16 lanes deep is 16 rows of the panel). Rows of a tile do not meet, and k goes up in steps from the
// start, so the bits of a row do not depend on the number of rows.
#pragma once

#include <cstdint>

#include "backend/cpu/integer_products.inl.h"
#include "backend/cpu/matmul.inl.h"

namespace sightline::cpu {
namespace {

constexpr int kTileHeight = 16;
constexpr int64_t kTileRowBytes = 64;
constexpr int64_t kTileSize = kTileHeight * kTileRowBytes;
// Tiles are stored at least once in so many steps, if for nothing: a processor of 2024 that has stored none for some
// 600 ns takes 280 ns to begin again.
constexpr int64_t kStoreEvery = 8;
// Rows whose sums are kept at once.
constexpr int64_t kPairRows = 2 * kTileHeight;

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

// Rows of memory that will be written soon, brought near with each step of the inner loop: a store that misses the
// caches waits longer for its line than a tile takes to compute.
class RowsAhead {
 public:
  RowsAhead(const OutputRows& output, int64_t column, int64_t columns, int64_t rows, int64_t steps)
      : at_(output.at + column * output.element_bytes),
        stride_(output.stride),
        bytes_(columns * output.element_bytes),
        rows_(output.at == nullptr || steps == 0 ? 0 : rows),
        rows_at_once_(steps == 0 ? 0 : (rows + steps - 1) / steps) {}

  template <class Tiles>
  [[gnu::always_inline]] void Fetch() {
    for (int64_t i = 0; i < rows_at_once_ && rows_ > 0; ++i, --rows_, at_ += stride_) {
      for (int64_t j = 0; j < bytes_; j += 64) Tiles::FetchToWrite(at_ + j);
    }
  }

 private:
  const char* at_;
  const int64_t stride_, bytes_;
  int64_t rows_;
  const int64_t rows_at_once_;
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

  // dot(sum, tile of rows, tile of the panel) for all, with the tiles of x at `rows` and those of the panel at `panel`.
  template <class Dot>
  [[gnu::always_inline]] static void Step(const char* rows, const char* panel, int64_t panel_stride, Dot dot) {
    Each<kRowTiles>([&](auto i) { Tiles::template Load<OfRows(i.value)>(rows + i.value * kTileSize, kTileRowBytes); });
    Each<kColumnTiles>([&](auto j) {
      Tiles::template LoadOnce<OfPanel(j.value)>(panel + j.value * kTileRowBytes, panel_stride);
      Each<kRowTiles>([&](auto i) {
        dot(Constant<Sum(i.value, j.value)>(), Constant<OfRows(i.value)>(), Constant<OfPanel(j.value)>());
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

  [[gnu::always_inline]] static void StoreSums(float* c, int64_t c_stride) {
    Each<kRowTiles>([&](auto i) {
      Each<kColumnTiles>([&](auto j) {
        Tiles::template Store<Sum(i.value, j.value)>(c + i.value * kTileHeight * c_stride + j.value * Isa::kLanes,
                                                     c_stride * static_cast<int64_t>(sizeof(float)));
      });
    });
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

// Copies `bytes` of every row into pairs of tiles, kPairRows rows at most, and fills up with zeros.
inline void CopyIntoTiles(const char* x, int64_t x_stride, int64_t rows, int64_t bytes, char* tiles) {
  const int64_t whole = bytes / kTileRowBytes, rest = bytes % kTileRowBytes;
  const int64_t height = rows > kTileHeight ? kPairRows : kTileHeight;
  for (int64_t i = 0; i < height; ++i) {
    char* to = tiles + i * kTileRowBytes;
    if (i >= rows) {
      for (int64_t step = 0; step < whole + (rest > 0); ++step) {
        __builtin_memset(to + step * 2 * kTileSize, 0, kTileRowBytes);
      }
      continue;
    }
    const char* from = x + i * x_stride;
    for (int64_t step = 0; step < whole; ++step) {
      __builtin_memcpy(to + step * 2 * kTileSize, from + step * kTileRowBytes, kTileRowBytes);
    }
    if (rest == 0) continue;
    __builtin_memset(to + whole * 2 * kTileSize, 0, kTileRowBytes);
    __builtin_memcpy(to + whole * 2 * kTileSize, from + whole * kTileRowBytes, static_cast<size_t>(rest));
  }
}

// bfloat16 times bfloat16.
template <class Isa_>
struct TilePairProduct {
  using Isa = Isa_;
  using Operand = BF16Operand<Isa>;
  using Weight = uint16_t;
  using Tiles = typename Isa::Tiles;
  static constexpr int kPair = 2;
  static constexpr int64_t kStepDepth = kTileRowBytes / static_cast<int64_t>(sizeof(uint16_t));
  static constexpr int64_t Steps(int64_t depth) { return (depth + kStepDepth - 1) / kStepDepth; }

  // Of kPairRows rows in tiles.
  static constexpr int64_t TileBytes(int64_t depth) { return Steps(depth) * 2 * kTileSize; }

  static void CopyRows(const uint16_t* x, int64_t x_stride, int64_t rows, int64_t depth, char* tiles) {
    CopyIntoTiles(reinterpret_cast<const char*>(x), x_stride * static_cast<int64_t>(sizeof *x), rows,
                  depth * static_cast<int64_t>(sizeof *x), tiles);
  }

  // c = x * panel, or c += where `resume`, for so many rows of x in tiles and up to the next whole tile.
  static void Multiply(const char* row_tiles, int64_t row_count, const PanelTask<TilePairProduct>& task,
                       int64_t columns) {
    const int64_t steps = task.depth / kStepDepth, rest = task.depth % kStepDepth;
    alignas(64) uint16_t last[kStepDepth * Isa::kLanes * Isa::kPanelVectors];
    if (rest > 0) CopyRest(task.panel + steps * kStepDepth * columns, rest, columns, last);
    Ahead ahead = task.ahead;
    alignas(64) char unused[kTileSize];
    EachBlock<Isa>(row_count, columns, [&](auto block, int64_t column) {
      using Block = decltype(block);
      RowsAhead output(task.output, column, Block::kColumnTiles * Isa::kLanes, row_count, steps);
      const auto dot = [](auto sum, auto a, auto b) { Tiles::template DotPairs<sum.value, a.value, b.value>(); };
      const int64_t stride = columns * static_cast<int64_t>(sizeof(uint32_t));
      if (task.resume) {
        Block::LoadSums(task.c + column, task.c_stride);
      } else {
        Block::Clear();
      }
      const char* rows = row_tiles;
      const char* panel = reinterpret_cast<const char*>(task.panel + 2 * column);
      for (int64_t step = 0; step < steps; ++step, rows += 2 * kTileSize, panel += kTileHeight * stride) {
        Block::Step(rows, panel, stride, dot);
        ahead.FetchLines(Block::kColumnTiles);
        output.template Fetch<Tiles>();
        if (step % kStoreEvery == kStoreEvery - 1) Tiles::template Store<Block::OfRows(0)>(unused, kTileRowBytes);
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
  static_assert(kWeightGroupValues == kTileRowBytes);

  // A group is its tiles, then the scales of its rows.
  static constexpr int64_t kGroupBytes = kParts * 2 * kTileSize + kPairRows * static_cast<int64_t>(sizeof(float));
  static constexpr int64_t TileBytes(int64_t depth) { return depth * kGroupBytes; }

  static void CopyRows(const Int8Group* x, int64_t x_stride, int64_t rows, int64_t depth, char* tiles) {
    for (int64_t group = 0; group < depth; ++group, tiles += kGroupBytes) {
      CopyIntoTiles(reinterpret_cast<const char*>(x[group].bytes), x_stride * static_cast<int64_t>(sizeof *x), rows,
                    kGroupValues, tiles);
      auto* scales = reinterpret_cast<float*>(tiles + kParts * 2 * kTileSize);
      for (int64_t i = 0; i < kPairRows; ++i) scales[i] = i < rows ? x[i * x_stride + group].scale : 0;
    }
  }

  static void Multiply(const char* row_tiles, int64_t row_count, const PanelTask<TileInt8Product>& task,
                       int64_t columns) {
    Ahead ahead = task.ahead;
    EachBlock<Isa>(row_count, columns, [&](auto block, int64_t column) {
      using Block = decltype(block);
      RowsAhead output(task.output, column, Block::kColumnTiles * Isa::kLanes, row_count, task.depth);
      GroupLoop<Block> loop(row_tiles, task, column, columns);
      for (int64_t group = 0; group < task.depth + 2; ++group) {
        loop.Run(group, ahead);
        if (group < task.depth) output.template Fetch<Tiles>();
      }
    });
  }

 private:
  // One block. Tiles and vectors work at the same time: while the tiles are busy with a group, the sums of the
  // one before the last are scaled and added up, half a tile before each product. (Those of the last may not have
  // arrived in memory.)
  template <class Block>
  class GroupLoop {
   public:
    GroupLoop(const char* row_tiles, const PanelTask<TileInt8Product>& task, int64_t column, int64_t columns)
        : row_tiles_(row_tiles),
          panel_(reinterpret_cast<const char*>(task.panel) + column * static_cast<int64_t>(sizeof(int32_t))),
          stride_(columns * static_cast<int64_t>(sizeof(int32_t))),
          groups_(task.depth),
          c_(task.c + column),
          c_stride_(task.c_stride) {
      if (task.resume) return;
      for (int64_t i = 0; i < Block::kRowTiles * kTileHeight; ++i) {
        for (int j = 0; j < Block::kColumnTiles; ++j) Store<Isa>(Isa::Set(0.0f), c_ + i * c_stride_ + j * Isa::kLanes);
      }
    }

    // The products of a group, and what is left to do of the two before it.
    [[gnu::always_inline]] void Run(int64_t group, Ahead& ahead) {
      Each<kParts>([&](auto part) {
        Each<Block::kColumnTiles>([&](auto j) {
          Each<Block::kRowTiles>([&](auto i) {
            constexpr int kTile = j.value * Block::kRowTiles + i.value, kDone = part.value * kSums + kTile;
            // Before its room is needed for this group.
            if (group >= 2) AddHalf<kDone / 2, kDone % 2>(group - 2);
            constexpr int kStoredPart = 1 - part.value;
            const int64_t stored = group - kStoredPart;
            if (stored >= 0 && stored < groups_) {
              Tiles::template Store<Block::Sum(i.value, j.value)>(sums_[stored % 2][kStoredPart][kTile], kTileRowBytes);
            }
            if (group < groups_) Multiply<part.value, i.value, j.value>(group, ahead);
          });
        });
      });
    }

   private:
    static constexpr int kSums = Block::kRowTiles * Block::kColumnTiles;

    template <int kPart, int kRow, int kColumn>
    [[gnu::always_inline]] void Multiply(int64_t group, Ahead& ahead) const {
      constexpr int kSum = Block::Sum(kRow, kColumn);
      const char* weights = panel_ + (group * kParts + kPart) * (1 + kTileHeight) * stride_ + stride_;
      Tiles::template Zero<kSum>();
      if constexpr (kColumn == 0) {
        const char* rows = row_tiles_ + group * kGroupBytes + kPart * 2 * kTileSize;
        Tiles::template Load<Block::OfRows(kRow)>(rows + kRow * kTileSize, kTileRowBytes);
      }
      if constexpr (kRow == 0) {
        Tiles::template LoadOnce<Block::OfPanel(kColumn)>(weights + kColumn * kTileRowBytes, stride_);
        ahead.FetchLines(1);
      }
      Tiles::template DotBytes<kSum, Block::OfRows(kRow), Block::OfPanel(kColumn)>();
    }

    // c += the sums of half of that tile, scaled.
    template <int kTile, int kHalf>
    [[gnu::always_inline]] void AddHalf(int64_t group) {
      using Vec = typename Isa::Vec;
      constexpr int kRow = kTile % Block::kRowTiles, kColumn = kTile / Block::kRowTiles;
      constexpr int kFirst = kHalf * kTileHeight / 2;
      const char* scales = panel_ + group * kParts * (1 + kTileHeight) * stride_ + kColumn * kTileRowBytes;
      Vec first_scales, second_scales;
      __builtin_memcpy(&first_scales, scales, sizeof first_scales);
      __builtin_memcpy(&second_scales, scales + (1 + kTileHeight) * stride_, sizeof second_scales);
      const auto* row_scales =
          reinterpret_cast<const float*>(row_tiles_ + group * kGroupBytes + kParts * 2 * kTileSize) +
          kRow * kTileHeight + kFirst;
      const auto& sums = sums_[group % 2];
      float* c = c_ + (kRow * kTileHeight + kFirst) * c_stride_ + kColumn * Isa::kLanes;
#pragma GCC unroll 8
      for (int i = 0; i < kTileHeight / 2; ++i, c += c_stride_) {
        const auto sum = [&](int part) {
          typename Isa::Ints integers;
          __builtin_memcpy(&integers, sums[part][kTile] + (kFirst + i) * Isa::kLanes, sizeof integers);
          return ToFloat<Isa>(integers);
        };
        Store<Isa>(AddGroup<Isa>(sum(0) * first_scales, sum(1), second_scales, Isa::Set(row_scales[i]), Load<Isa>(c)),
                   c);
      }
    }

    const char* const row_tiles_;
    const char* const panel_;
    const int64_t stride_;
    const int64_t groups_;
    float* const c_;
    const int64_t c_stride_;
    alignas(64) int32_t sums_[2][kParts][kSums][kTileHeight * Isa::kLanes];  // of a group and of the one before
  };
};

// Bytes of scratch for `rows` rows in tiles.
template <class Product>
int64_t RowTileBytes(int64_t rows, int64_t depth) {
  return (rows + kPairRows - 1) / kPairRows * Product::TileBytes(depth);
}

// Depth that attention keeps in tiles at once: they stay in the first-level cache beside the keys and values.
template <class Product>
inline constexpr int64_t kNearDepth = 16 * Product::kStepDepth;

// Rows of x in tiles, for several panels.
template <class Product>
class RowsInTiles {
 public:
  static constexpr bool Fit(int64_t rows, int64_t depth) { return rows <= kPairRows && depth <= kNearDepth<Product>; }

  RowsInTiles(const typename Product::Operand::Element* x, int64_t x_stride, int64_t rows, int64_t depth)
      : rows_(rows) {
    Product::CopyRows(x, x_stride, rows, depth, tiles_);
  }

  // The task's x is these rows.
  void Multiply(const PanelTask<Product>& task, int64_t columns) const {
    Product::Multiply(tiles_, rows_, task, columns);
  }

 private:
  const TileUse<typename Product::Isa> use_;
  const int64_t rows_;
  alignas(64) char tiles_[Product::TileBytes(kNearDepth<Product>)];
};

// What MultiplyPanel does for other products.
template <class Product, class Finish>
void MultiplyPanelInTiles(PanelTask<Product> task, int64_t rows, int64_t columns, Finish finish) {
  const int64_t depth = task.depth, parts = (depth + kNearDepth<Product> - 1) / kNearDepth<Product>;
  const int64_t depth_at_once = RoundUp((depth + parts - 1) / parts, Product::kStepDepth);
  const TileUse<typename Product::Isa> use;
  alignas(64) char tiles[Product::TileBytes(kNearDepth<Product>)];
  for (int64_t row = 0; row < rows; row += kPairRows) {
    const int64_t count = Smaller(rows - row, kPairRows);
    PanelTask<Product> part = task;
    for (int64_t k = 0; k < depth; k += depth_at_once) {
      part.depth = Smaller(depth - k, depth_at_once);
      part.panel = task.panel + k * columns;
      part.resume = task.resume || k > 0;
      Product::CopyRows(task.x + k, task.x_stride, count, part.depth, tiles);
      Product::Multiply(tiles, count, part, columns);
    }
    finish(row, count, task.c);
    task.x += count * task.x_stride;
    task.c += count * task.c_stride;
  }
}

// What Multiply does for other products. Rows in tiles stay in the second-level cache while the weights go by, read
// once; where that takes the depth in parts, sums wait there too.
template <class Product, class Finish>
void MultiplyInTiles(const MatmulTask& task, Finish finish) {
  using Isa = typename Product::Isa;
  constexpr int64_t kPanelColumns = Isa::kLanes * Isa::kPanelVectors;
  const PanelLayout layout(Isa::kLanes, kPanelColumns, Product::kPair, task.outputs, task.depth);
  const auto* x = static_cast<const typename Product::Operand::Element*>(task.x) + task.row_begin * task.x_stride;
  const auto* weights = static_cast<const typename Product::Weight*>(task.weights);
  const int64_t rows = task.row_end - task.row_begin, pairs = (rows + kPairRows - 1) / kPairRows;
  const bool whole = task.depth_at_once == task.depth;
  const int64_t c_stride = ProductStride(whole ? kPanelColumns : task.column_end - task.column_begin, kPanelColumns);
  const TileUse<Isa> use;
  for (int64_t k = 0; k < task.depth; k += task.depth_at_once) {
    const int64_t depth = Smaller(task.depth_at_once, task.depth - k), pair_bytes = Product::TileBytes(depth);
    for (int64_t pair = 0; !task.rows_are_in_tiles && pair < pairs; ++pair) {
      const int64_t row = pair * kPairRows;
      Product::CopyRows(x + row * task.x_stride + k, task.x_stride, Smaller(kPairRows, rows - row), depth,
                        task.row_tiles + pair * pair_bytes);
    }
    for (int64_t column = task.column_begin; column < task.column_end; column += kPanelColumns) {
      const int64_t width = layout.width(column);
      const auto* panel = weights + layout.offset(column) + k * width;
      // The next panel, a part with each pair. (After the last one of the task, memory that may not be needed; a hint
      // cannot fault.)
      const int64_t share = depth * width / pairs, steps = Product::Steps(depth) * width / Isa::kLanes;
      const auto* next = panel + layout.offset(kPanelColumns);
      if (pairs == 1) next = AfterThese(panel, kStreamAhead);
      for (int64_t pair = 0; pair < pairs; ++pair) {
        const int64_t row = pair * kPairRows, count = Smaller(kPairRows, rows - row);
        float* c = whole ? task.product : task.product + row * c_stride + column - task.column_begin;
        Product::Multiply(task.row_tiles + pair * pair_bytes, count,
                          {.x = nullptr,
                           .x_stride = 0,
                           .panel = panel,
                           .depth = depth,
                           .c = c,
                           .c_stride = c_stride,
                           .resume = k > 0,
                           .ahead = {reinterpret_cast<const char*>(next + pair * share),
                                     share * static_cast<int64_t>(sizeof *next) / steps + 1},
                           .output = k + depth < task.depth ? OutputRows() : OutputOf(task, row, column)},
                          width);
        if (k + depth == task.depth) finish(FinishedTile{task.row_begin + row, count, column, width, c, c_stride});
      }
    }
  }
}

}  // namespace
}  // namespace sightline::cpu
