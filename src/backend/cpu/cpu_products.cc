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
// The same of weights, in tiles: what all rows of x meet one after the other.
constexpr int64_t kResidentWeightBytes = 1200 << 10;
// Rows of a task in tiles, which uses 1 KB of a row of x and as much of its sums at a time.
constexpr int64_t kMostTileRows = 128;
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

  explicit Operand(const Rows& x)
      : depth(x.storage == Storage::kOperandInt8 ? CeilDivide(x.columns, kGroupValues) : x.columns),
        element_bytes(static_cast<int64_t>(RowBytes(x)) / depth) {}
};

// How a product is cut: blocks of rows that stay in the second-level cache, times ranges of whole panels.
struct MatmulPlan {
  int64_t rows = 0;        // of a task
  int64_t columns = 0;     // of a task
  int64_t row_blocks = 0;  // in a group of rows
  int64_t column_blocks = 0;
  MatmulOrder order = MatmulOrder::kDepth;

  MatmulPlan(int64_t group_rows, int64_t groups, const WeightMatrix& w, const Operand& x, const CpuKernels& kernels,
             int threads) {
    const int64_t tile = kernels.rows_at_once;
    const int64_t row_bytes = DepthBlock(x.depth, x.element_bytes) * x.element_bytes;
    const int64_t fitting =
        kernels.in_tiles ? kMostTileRows : std::max<int64_t>(1, kResidentBytes / row_bytes / tile) * tile;
    row_blocks = CeilDivide(group_rows, fitting);
    rows = RoundUp(CeilDivide(group_rows, row_blocks), tile);
    row_blocks = CeilDivide(group_rows, rows);
    if (group_rows <= std::max(kFewRows, tile)) order = MatmulOrder::kPanels;

    const int64_t panels = CeilDivide(w.outputs, kernels.panel_columns);
    const int64_t wanted_blocks = CeilDivide(kTasksPerThread * threads, groups * row_blocks);
    const int64_t weight_bytes = static_cast<int64_t>(w.packed.size()) / w.outputs * kTaskColumns;
    if (kernels.in_tiles && order == MatmulOrder::kDepth && weight_bytes <= kResidentWeightBytes) {
      order = MatmulOrder::kRows;
    }
    const int64_t panels_per_task = std::min(CeilDivide(kTaskColumns, kernels.panel_columns), panels / wanted_blocks);
    columns = std::max<int64_t>(1, panels_per_task) * kernels.panel_columns;
    column_blocks = CeilDivide(w.outputs, columns);
  }
};

// Block of columns that task `task` of `tasks` does. Members take tasks in turn, so each reads its own part of the
// weights from one end to the other.
int64_t StreamedBlock(int64_t task, int64_t tasks, int members) {
  const int64_t stream = task % members, step = task / members;
  const int64_t longer = tasks % members;  // streams that are one task longer
  return stream * (tasks / members) + std::min(stream, longer) + step;
}

}  // namespace

void CpuBackend::RunMatmul(const Rows& x, const WeightMatrix& w, int64_t group_rows,
                           FunctionRef<void(const MatmulTask&)> run) {
  if (x.rows == 0) return;
  const int64_t groups = x.rows / group_rows;
  const Operand operand(x);
  const MatmulPlan plan(group_rows, groups, w, operand, kernels_, team_.size());
  ReserveScratch(ProductElements(plan.rows, plan.columns, kernels_));
  const bool weights_are_larger = w.packed.size() > static_cast<size_t>(x.rows) * RowBytes(x);
  const auto run_block = [&](int64_t group, int64_t row_block, int64_t column_block, int member) {
    const int64_t row = group * group_rows + row_block * plan.rows, column = column_block * plan.columns;
    run({.x = DataOf(x),
         .x_stride = operand.depth,
         .weights = w.packed.data(),
         .depth = operand.depth,
         .outputs = w.outputs,
         .row_begin = row,
         .row_end = std::min(row + plan.rows, (group + 1) * group_rows),
         .column_begin = column,
         .column_end = std::min(column + plan.columns, w.outputs),
         .order = plan.order,
         .product = ScratchOf(member)});
  };
  const int64_t row_blocks = groups * plan.row_blocks, tasks = row_blocks * plan.column_blocks;
  team_.Run(tasks, [&](int64_t task, int member) {
    // Neighbouring tasks share the larger of the two, which a member that does both finds in its cache.
    int64_t row_block = task / plan.column_blocks, column_block = task % plan.column_blocks;
    if (row_blocks == 1) {
      column_block = StreamedBlock(task, tasks, team_.size());
    } else if (weights_are_larger) {
      row_block = task % row_blocks;
      column_block = task / row_blocks;
    }
    run_block(row_block / plan.row_blocks, row_block % plan.row_blocks, column_block, member);
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
