#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/isa.h"
#include "backend/cpu/packing.h"
#include "backend/cpu/panels.inl.h"
#include "backend/storage.h"

namespace sightline {
namespace cpu {
namespace {

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Part of x that a task should find in its core's second-level cache while it goes through the panels.
constexpr int64_t kResidentBytes = 48 * kDepthBlockBytes;
// Columns of a task: its sums stay near too, and a task is long (50 us) against the cost of handing it out.
constexpr int64_t kTaskColumns = 128;
// Enough tasks that members who finish early find more.
constexpr int64_t kTasksPerThread = 12;

Nonlinearity NonlinearityOf(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return Nonlinearity::kNone;
    case Activation::kGelu:
      return Nonlinearity::kGelu;
    case Activation::kRelu:
      return Nonlinearity::kRelu;
  }
  return Nonlinearity::kNone;
}

}  // namespace

// How a product is cut: blocks of rows that stay in the second-level cache, times ranges of whole panels.
struct CpuBackend::MatmulPlan {
  int64_t rows = 0;        // of a task
  int64_t columns = 0;     // of a task
  int64_t row_blocks = 0;  // in a group of rows
  int64_t column_blocks = 0;

  MatmulPlan(int64_t group_rows, int64_t groups, const WeightMatrix& w, size_t element, int panel_columns,
             int threads) {
    const auto bytes = static_cast<int64_t>(element);
    const int64_t row_bytes = DepthBlock(w.inputs, bytes) * bytes;
    const int64_t fitting = std::max<int64_t>(1, kResidentBytes / row_bytes / kTileRows) * kTileRows;
    row_blocks = CeilDivide(group_rows, fitting);
    rows = RoundUp(CeilDivide(group_rows, row_blocks), kTileRows);
    row_blocks = CeilDivide(group_rows, rows);

    const int64_t panels = CeilDivide(w.outputs, panel_columns);
    const int64_t wanted_blocks = CeilDivide(kTasksPerThread * threads, groups * row_blocks);
    const int64_t panels_per_task = std::min(CeilDivide(kTaskColumns, panel_columns), panels / wanted_blocks);
    columns = std::max<int64_t>(1, panels_per_task) * panel_columns;
    column_blocks = CeilDivide(w.outputs, columns);
  }
};

CpuBackend::CpuBackend(const CpuKernels& kernels, std::string isa, int threads)
    : kernels_(kernels), isa_(std::move(isa)), team_(threads), scratch_(static_cast<size_t>(team_.size())) {}

std::string CpuBackend::name() const {
  return "CPU " + isa_ + ", " + std::to_string(threads()) + (threads() == 1 ? " thread" : " threads");
}

Precision CpuBackend::preferred_precision() const {
  return kernels_.bf16.bf16_operands ? Precision::kBF16 : Precision::kF32;
}

std::string CpuBackend::PackedLayout(Precision precision) const { return cpu::PackedLayout(kernels_, precision); }

size_t CpuBackend::PackedBytes(Precision precision, int64_t outputs, int64_t inputs) const {
  return cpu::PackedBytes(kernels_, precision, outputs, inputs);
}

void CpuBackend::Pack(Precision precision, std::span<const float> weight, int64_t outputs, int64_t inputs,
                      std::span<std::byte> packed) const {
  cpu::Pack(kernels_, precision, weight, outputs, inputs, packed);
}

const FormatKernels& CpuBackend::FormatOf(Precision precision) const {
  return precision == Precision::kF32 ? kernels_.f32 : kernels_.bf16;
}

Storage CpuBackend::DoOperandStorage(Precision precision) const {
  return FormatOf(precision).bf16_operands ? Storage::kOperandBF16 : Storage::kOperandF32;
}

void CpuBackend::DoUpload(std::span<const float> values, const Rows& to) {
  if (to.storage == Storage::kOperandBF16) {
    std::ranges::transform(values, reinterpret_cast<uint16_t*>(DataOf(to)), BF16FromFloat);
  } else {
    std::memcpy(DataOf(to), values.data(), values.size_bytes());
  }
}

void CpuBackend::DoDownload(const Rows& from, std::span<float> values) {
  if (from.storage == Storage::kOperandBF16) {
    const std::span stored(reinterpret_cast<const uint16_t*>(DataOf(from)), values.size());
    std::ranges::transform(stored, values.begin(), FloatFromBF16);
  } else {
    std::memcpy(values.data(), DataOf(from), values.size_bytes());
  }
}

void CpuBackend::DoCopyRows(const Rows& from, const Rows& to) {
  std::memmove(DataOf(to), DataOf(from), static_cast<size_t>(from.rows) * RowBytes(from));
}

void CpuBackend::ReserveScratch(int64_t floats) {
  const size_t bytes = static_cast<size_t>(floats) * sizeof(float);
  for (std::shared_ptr<DeviceBlock>& block : scratch_) {
    if (block != nullptr && block->bytes >= bytes) continue;
    block = nullptr;
    block = scratch_pool_.Take(bytes);
  }
}

float* CpuBackend::ScratchOf(int member) const {
  return reinterpret_cast<float*>(scratch_[static_cast<size_t>(member)]->data);
}

void CpuBackend::RunMatmul(const Rows& x, const WeightMatrix& w, int64_t group_rows,
                           FunctionRef<void(const MatmulTask&)> run) {
  if (x.rows == 0) return;
  const int64_t groups = x.rows / group_rows;
  const MatmulPlan plan(group_rows, groups, w, ElementBytes(x.storage), kernels_.panel_columns, team_.size());
  ReserveScratch(ProductElements(plan.rows, plan.columns, kernels_.panel_columns));
  const void* operand = DataOf(x);
  const int64_t tasks_per_group = plan.row_blocks * plan.column_blocks;
  // Neighbouring tasks share their rows, which a member that does both finds in its cache.
  team_.Run(groups * tasks_per_group, [&](int64_t task, int member) {
    const int64_t group_begin = task / tasks_per_group * group_rows;
    const int64_t row = group_begin + task % tasks_per_group / plan.column_blocks * plan.rows;
    const int64_t column = task % plan.column_blocks * plan.columns;
    run({.x = operand,
         .x_stride = x.columns,
         .weights = w.packed.data(),
         .depth = w.inputs,
         .outputs = w.outputs,
         .row_begin = row,
         .row_end = std::min(row + plan.rows, group_begin + group_rows),
         .column_begin = column,
         .column_end = std::min(column + plan.columns, w.outputs),
         .product = ScratchOf(member)});
  });
}

void CpuBackend::DoLinear(const Rows& x, const WeightMatrix& w, const LinearOptions& options, const Rows& y) {
  const FormatKernels& format = FormatOf(w.precision);
  LinearOutput output{.bias = options.bias.empty() ? nullptr : options.bias.data(),
                      .nonlinearity = NonlinearityOf(options.activation),
                      .sink = LinearSink::kStoreF32,
                      .y = DataOf(y)};
  if (options.add_to != nullptr) output.sink = LinearSink::kAddF32;
  if (y.storage == Storage::kOperandBF16) output.sink = LinearSink::kStoreBF16;
  RunMatmul(x, w, x.rows, [&](const MatmulTask& task) { format.linear(task, output); });
}

ProjectedHeads CpuBackend::DoQkv(const Rows& x, const WeightMatrix& w, WeightVector bias, const AttentionShape& shape) {
  const FormatKernels& format = FormatOf(w.precision);
  const HeadLayout layout = MakeHeadLayout(kernels_.lanes, kernels_.panel_columns, format.bf16_operands ? 2 : 1,
                                           shape.length, shape.head_size);
  const auto take = [&](int64_t elements) {
    return Allocate(static_cast<size_t>(shape.sequences * shape.heads * elements) * ElementBytes(x.storage));
  };
  ProjectedHeads projected{take(layout.query_elements), take(layout.key_elements), take(layout.value_elements), shape,
                           x.storage};
  const HeadArrays arrays{.queries = projected.queries->data,
                          .keys = projected.keys->data,
                          .values = projected.values->data,
                          .length = shape.length,
                          .heads = shape.heads,
                          .head_size = shape.head_size};
  const float* bias_values = bias.empty() ? nullptr : bias.data();
  RunMatmul(x, w, shape.length, [&](const MatmulTask& task) { format.qkv(task, bias_values, arrays); });
  return projected;
}

void CpuBackend::DoAttention(const ProjectedHeads& projected, const Rows& y) {
  const AttentionShape& shape = projected.shape;
  const FormatKernels& format = projected.storage == Storage::kOperandBF16 ? kernels_.bf16 : kernels_.f32;
  const int64_t blocks = CeilDivide(shape.length, kQueryBlock);
  ReserveScratch(AttentionScratchElements(shape.length, kernels_.panel_columns));
  // Neighbouring tasks share a head's keys and values.
  team_.Run(shape.sequences * shape.heads * blocks, [&](int64_t task, int member) {
    const int64_t row = task % blocks * kQueryBlock;
    const int64_t head = task / blocks;
    format.attention({.arrays = {.queries = projected.queries->data,
                                 .keys = projected.keys->data,
                                 .values = projected.values->data,
                                 .length = shape.length,
                                 .heads = shape.heads,
                                 .head_size = shape.head_size},
                      .sequence = head / shape.heads,
                      .head = static_cast<int>(head % shape.heads),
                      .row_begin = row,
                      .row_end = std::min(row + kQueryBlock, shape.length),
                      .y = DataOf(y),
                      .scores = ScratchOf(member)});
  });
}

void CpuBackend::DoLayerNorm(const Rows& x, WeightVector gain, WeightVector bias, float epsilon, const Rows& y) {
  constexpr int64_t kRowsPerTask = 16;
  team_.Run(CeilDivide(x.rows, kRowsPerTask), [&](int64_t task, int) {
    kernels_.layer_norm({.x = reinterpret_cast<const float*>(DataOf(x)),
                         .gain = gain.data(),
                         .bias = bias.data(),
                         .epsilon = epsilon,
                         .columns = x.columns,
                         .row_begin = task * kRowsPerTask,
                         .row_end = std::min((task + 1) * kRowsPerTask, x.rows),
                         .store_bf16 = y.storage == Storage::kOperandBF16,
                         .y = DataOf(y)});
  });
}

}  // namespace cpu

std::unique_ptr<Backend> MakeCpuBackend(const CpuOptions& options) {
  SIGHTLINE_CHECK(cpu::IsAvailable(options.isa));
  return std::make_unique<cpu::CpuBackend>(cpu::KernelsFor(options.isa), std::string(NameOf(options.isa)),
                                           options.threads);
}

}  // namespace sightline
