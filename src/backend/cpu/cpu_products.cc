// Products with weights: how they are cut into tasks.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/int8_group.h"
#include "backend/cpu/panels.inl.h"
#include "backend/storage.h"

namespace sightline::cpu {
namespace {

// Part of x that a task should find in its core's second-level cache while it goes through the panels.
constexpr int64_t kResidentBytes = 48 * kDepthBlockBytes;
// The same in tiles: rows of x, whose whole depth is near unless so few rows would be that weights are read too often;
// then part of the depth of some rows, and the sums that wait for the next part.
constexpr int64_t kResidentTileBytes = 700 << 10;
constexpr int64_t kFewestTileRows = 256, kMostTileRows = 320;
constexpr int64_t kResidentSums = 320 << 10;  // floats
// Columns of a task: its sums stay near too, and a task is long (50 us) against the cost of handing it out.
constexpr int64_t kTaskColumns = 256;
// Enough tasks that members who finish early find more.
constexpr int64_t kTasksPerThread = 12;

// A product of no more rows waits for its weights from memory.
constexpr int64_t kFewRows = 12;

Nonlinearity NonlinearityOf(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return Nonlinearity::kNone;
    case Activation::kGelu:
      return Nonlinearity::kGelu;
    case Activation::kGeluTanh:
      return Nonlinearity::kGeluTanh;
    case Activation::kRelu:
      return Nonlinearity::kRelu;
  }
  return Nonlinearity::kNone;
}

// Rows of an operand as kernels count them: in numbers, or in groups of them.
struct Operand {
  int64_t depth = 0;
  int64_t element_bytes = 0;
  int64_t stride = 0;  // elements from row to row

  explicit Operand(const Rows& x)
      : depth(x.storage == Storage::kOperandInt8 ? CeilDivide(x.columns, kGroupValues) : x.columns),
        element_bytes(x.storage == Storage::kOperandInt8 ? static_cast<int64_t>(sizeof(Int8Group))
                                                         : static_cast<int64_t>(RowBytes(x)) / depth),
        stride(static_cast<int64_t>(RowBytes(x)) / element_bytes) {}
};

// How a product is cut: blocks of rows that stay in the second-level cache, times ranges of whole panels.
struct MatmulPlan {
  int64_t rows = 0;        // of a task
  int64_t columns = 0;     // of a task
  int64_t row_blocks = 0;  // in a group of rows
  int64_t column_blocks = 0;
  int64_t depth_at_once = 0;  // less than the depth in tiles only
  MatmulOrder order = MatmulOrder::kDepth;
  // Of scratch.
  int64_t product_elements = 0;
  int64_t row_tile_bytes = 0;

  MatmulPlan(int64_t group_rows, int64_t groups, const WeightMatrix& w, const Operand& x, const CpuKernels& kernels,
             const FormatKernels& format, int threads) {
    const bool in_tiles = format.row_tile_bytes != nullptr;
    const int64_t tile = in_tiles ? kernels.rows_at_once : kTileRows;
    const auto cut_rows = [&](int64_t most) {
      rows = RoundUp(CeilDivide(group_rows, CeilDivide(group_rows, most)), tile);
      row_blocks = CeilDivide(group_rows, rows);
    };
    depth_at_once = x.depth;
    int64_t wanted_tasks = kTasksPerThread * threads, most_columns = kTaskColumns;
    if (!in_tiles) {
      const int64_t row_bytes = DepthBlock(x.depth, x.element_bytes) * x.element_bytes;
      cut_rows(std::max<int64_t>(1, kResidentBytes / row_bytes / tile) * tile);
    } else if (const int64_t fitting = kResidentTileBytes / format.row_tile_bytes(tile, x.depth) * tile;
               fitting >= std::min(kFewestTileRows, group_rows)) {
      cut_rows(fitting);
    } else {
      cut_rows(kMostTileRows);
      const int64_t parts = CeilDivide(format.row_tile_bytes(rows, x.depth), kResidentTileBytes);
      depth_at_once = RoundUp(CeilDivide(x.depth, parts), format.tile_depth);
      // Each task goes through all of its rows' depth, so there are no more than needed.
      wanted_tasks = threads;
      most_columns = kResidentSums / rows;
    }
    if (group_rows <= std::max(kFewRows, tile)) order = MatmulOrder::kPanels;

    const int64_t panels = CeilDivide(w.outputs, kernels.panel_columns);
    const int64_t wanted_blocks = CeilDivide(wanted_tasks, groups * row_blocks);
    const int64_t panels_per_task =
        std::min(CeilDivide(most_columns, kernels.panel_columns), CeilDivide(panels, wanted_blocks));
    columns = panels_per_task * kernels.panel_columns;
    column_blocks = CeilDivide(w.outputs, columns);
    product_elements = ProductElements(in_tiles && depth_at_once == x.depth ? tile : rows, columns, kernels);
    if (in_tiles) row_tile_bytes = format.row_tile_bytes(rows, depth_at_once);
  }
};

}  // namespace

void CpuBackend::RunMatmul(const Rows& x, const WeightMatrix& w, int64_t group_rows,
                           FunctionRef<void(const MatmulTask&)> run) {
  if (x.rows == 0) return;
  const int64_t groups = x.rows / group_rows;
  const Operand operand(x);
  const FormatKernels& format = KernelsOf(w.precision);
  const MatmulPlan plan(group_rows, groups, w, operand, kernels_, format, team_.size());
  ReserveScratch(plan.product_elements + plan.row_tile_bytes / static_cast<int64_t>(sizeof(float)));
  const int64_t row_blocks = groups * plan.row_blocks, blocks = row_blocks * plan.column_blocks;
  // Neighbouring blocks share the larger of the two.
  const bool share_weights =
      format.row_tile_bytes == nullptr && w.packed.size() > static_cast<size_t>(x.rows) * RowBytes(x);
  shares_.Start(blocks);
  team_.Run(blocks, [&](int64_t, int member) {
    const int64_t block = shares_.Take(member);
    const int64_t row_block = share_weights ? block % row_blocks : block / plan.column_blocks;
    const int64_t column_block = share_weights ? block / row_blocks : block % plan.column_blocks;
    const int64_t group = row_block / plan.row_blocks;
    const int64_t row = group * group_rows + row_block % plan.row_blocks * plan.rows;
    const int64_t column = column_block * plan.columns;
    int64_t& rows_in_tiles = shares_.rows_in_tiles(member);
    const bool rows_are_in_tiles = plan.depth_at_once == operand.depth && rows_in_tiles == row_block;
    rows_in_tiles = row_block;
    run({.x = DataOf(x),
         .x_stride = operand.stride,
         .weights = w.packed.data(),
         .depth = operand.depth,
         .outputs = w.outputs,
         .row_begin = row,
         .row_end = std::min(row + plan.rows, (group + 1) * group_rows),
         .column_begin = column,
         .column_end = std::min(column + plan.columns, w.outputs),
         .order = plan.order,
         .product = ScratchOf(member),
         .depth_at_once = plan.depth_at_once,
         .row_tiles = reinterpret_cast<char*>(ScratchOf(member) + plan.product_elements),
         .rows_are_in_tiles = rows_are_in_tiles});
  });
}

void CpuBackend::DoLinear(const Rows& x, const WeightMatrix& w, const LinearOptions& options, const Rows& y) {
  if (y.storage == Storage::kOperandInt8) {
    // The scale of a group is known only when all its numbers are.
    const Rows unrounded = Empty(y.rows, y.columns, Storage::kStream);
    DoLinear(x, w, options, unrounded);
    return DoConvert(unrounded, y);
  }
  LinearOutput output{.bias = options.bias.empty() ? nullptr : options.bias.data(),
                      .nonlinearity = NonlinearityOf(options.activation),
                      .sink = LinearSink::kStoreF32,
                      .y = DataOf(y)};
  if (options.add_to != nullptr) output.sink = LinearSink::kAddF32;
  if (y.storage == Storage::kOperandBF16) output.sink = LinearSink::kStoreBF16;
  const FormatKernels& kernels = KernelsOf(w.precision);
  RunMatmul(x, w, x.rows, [&](const MatmulTask& task) { kernels.linear(task, output); });
}

ProjectedHeads CpuBackend::DoQkv(const Rows& x, const WeightMatrix& w, WeightVector bias, const AttentionShape& shape) {
  const FormatKernels& kernels = KernelsOf(w.precision);
  SIGHTLINE_CHECK(kernels.qkv != nullptr);
  const int64_t heads = shape.sequences * shape.heads;
  const HeadLayout layout = MakeHeadLayout(kernels_, x.storage == Storage::kOperandBF16, shape.length, shape.head_size);
  const auto take = [&](int64_t elements) {
    return Allocate(static_cast<size_t>(heads * elements) * RowBytes(x) / static_cast<size_t>(x.columns));
  };
  ProjectedHeads projected{take(QueryElements(shape.length, shape.head_size)), take(layout.key_elements),
                           take(layout.value_elements), shape, x.storage};
  const HeadArrays arrays{.queries = projected.queries->data,
                          .keys = projected.keys->data,
                          .values = projected.values->data,
                          .length = shape.length,
                          .heads = shape.heads,
                          .head_size = shape.head_size};
  const float* bias_values = bias.empty() ? nullptr : bias.data();
  RunMatmul(x, w, shape.length, [&](const MatmulTask& task) { kernels.qkv(task, bias_values, arrays); });
  return projected;
}

}  // namespace sightline::cpu
