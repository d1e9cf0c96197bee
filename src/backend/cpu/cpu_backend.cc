#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/int8_group.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/packing.h"
#include "backend/storage.h"

namespace sightline {
namespace cpu {
namespace {

// The kernels' view of what backend/storage.h sizes.
static_assert(kInt8RowParts * sizeof(Int8Group) == kInt8GroupBytes && kGroupValues == kInt8GroupValues);

const float* FloatsOf(const Rows& rows) { return reinterpret_cast<const float*>(DataOf(rows)); }

void Dequantise(const Rows& from, std::span<float> values) {
  const auto* groups = reinterpret_cast<const Int8Group*>(DataOf(from));
  const int64_t row_groups = kInt8RowParts * CeilDivide(from.columns, kGroupValues);
  for (int64_t i = 0; i < from.rows * from.columns; ++i) {
    const int64_t row = i / from.columns, column = i % from.columns;
    const Int8Group& group = groups[row * row_groups + column / kGroupValues];
    values[static_cast<size_t>(i)] = group.scale * group.bytes[column % kGroupValues];
  }
}

}  // namespace

CpuBackend::CpuBackend(const CpuKernels& kernels, std::string isa, int threads)
    : kernels_(kernels),
      isa_(std::move(isa)),
      team_(threads),
      shares_(team_.size()),
      scratch_(static_cast<size_t>(team_.size())) {}

std::string CpuBackend::name() const {
  return "CPU " + isa_ + ", " + std::to_string(threads()) + (threads() == 1 ? " thread" : " threads");
}

Precision CpuBackend::preferred_precision() const {
  return kernels_.bf16.operand == RowFormat::kBF16 ? Precision::kBF16 : Precision::kF32;
}

std::string CpuBackend::PackedLayout(Precision precision) const { return cpu::PackedLayout(kernels_, precision); }

size_t CpuBackend::PackedBytes(Precision precision, int64_t outputs, int64_t inputs) const {
  return cpu::PackedBytes(kernels_, precision, outputs, inputs);
}

void CpuBackend::Pack(Precision precision, std::span<const float> weight, int64_t outputs, int64_t inputs,
                      std::span<std::byte> packed) const {
  constexpr int64_t kPanelsPerTask = 8;
  const int64_t columns = kPanelsPerTask * kernels_.panel_columns;
  team_.Run(CeilDivide(outputs, columns), [&](int64_t task, int) {
    const int64_t first = task * columns;
    cpu::Pack(kernels_, precision, weight, outputs, inputs, first, std::min(first + columns, outputs), packed);
  });
}

const FormatKernels& CpuBackend::KernelsOf(Precision precision) const {
  switch (precision) {
    case Precision::kF32:
      return kernels_.f32;
    case Precision::kBF16:
      return kernels_.bf16;
    case Precision::kInt8:
      return kernels_.int8;
    case Precision::kInt8Weights:
      return kernels_.int8w;
    case Precision::kInt4:
      return kernels_.int4;
  }
  return kernels_.f32;
}

const FormatKernels& CpuBackend::KernelsOf(Storage storage) const {
  return storage == Storage::kOperandBF16 ? kernels_.bf16 : kernels_.f32;
}

Storage CpuBackend::DoOperandStorage(Precision precision) const {
  switch (KernelsOf(precision).operand) {
    case RowFormat::kF32:
      return Storage::kOperandF32;
    case RowFormat::kBF16:
      return Storage::kOperandBF16;
    case RowFormat::kInt8:
      return Storage::kOperandInt8;
  }
  return Storage::kOperandF32;
}

Storage CpuBackend::DoAttentionStorage(Precision precision) const {
  return DoOperandStorage(precision == Precision::kF32 ? Precision::kF32 : Precision::kBF16);
}

RowFormat CpuBackend::FormatOf(Storage storage) const {
  switch (storage) {
    case Storage::kStream:
    case Storage::kOperandF32:
      return RowFormat::kF32;
    case Storage::kOperandBF16:
      SIGHTLINE_CHECK(kernels_.bf16.operand == RowFormat::kBF16);
      return RowFormat::kBF16;
    case Storage::kOperandInt8:
      return RowFormat::kInt8;
  }
  return RowFormat::kF32;
}

void CpuBackend::DoUpload(std::span<const float> values, const Rows& to) {
  if (to.storage == Storage::kOperandInt8) {
    RunRows(values.data(), to, kernels_.convert, {});
  } else if (to.storage == Storage::kOperandBF16) {
    std::ranges::transform(values, reinterpret_cast<uint16_t*>(DataOf(to)), BF16FromFloat);
  } else {
    std::memcpy(DataOf(to), values.data(), values.size_bytes());
  }
}

void CpuBackend::DoDownload(const Rows& from, std::span<float> values) {
  if (from.storage == Storage::kOperandInt8) {
    Dequantise(from, values);
  } else if (from.storage == Storage::kOperandBF16) {
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

void CpuBackend::RunRows(const float* x, const Rows& y, void (*kernel)(const RowTask&), const RowTask& parameters) {
  constexpr int64_t kNumbersPerTask = 1 << 14;
  const int64_t rows_per_task = std::max<int64_t>(1, kNumbersPerTask / y.columns);
  const RowFormat format = FormatOf(y.storage);
  if (format == RowFormat::kInt8) ReserveScratch(y.columns);
  team_.Run(CeilDivide(y.rows, rows_per_task), [&](int64_t index, int member) {
    RowTask task = parameters;
    task.x = x;
    task.columns = y.columns;
    task.row_begin = index * rows_per_task;
    task.row_end = std::min(task.row_begin + rows_per_task, y.rows);
    task.format = format;
    task.y = DataOf(y);
    task.scratch = format == RowFormat::kInt8 ? ScratchOf(member) : nullptr;
    kernel(task);
  });
}

void CpuBackend::DoConvert(const Rows& x, const Rows& y) { RunRows(FloatsOf(x), y, kernels_.convert, {}); }

void CpuBackend::DoLayerNorm(const Rows& x, WeightVector gain, WeightVector bias, float epsilon, const Rows& y) {
  RunRows(FloatsOf(x), y, kernels_.layer_norm, {.gain = gain.data(), .bias = bias.data(), .epsilon = epsilon});
}

void CpuBackend::DoRmsNorm(const Rows& x, WeightVector gain, float epsilon, const Rows& y) {
  RunRows(FloatsOf(x), y, kernels_.rms_norm, {.gain = gain.data(), .epsilon = epsilon});
}

void CpuBackend::DoSwiGlu(const Rows& x, const Rows& y) { RunRows(FloatsOf(x), y, kernels_.swiglu, {}); }

}  // namespace cpu

std::unique_ptr<Backend> MakeCpuBackend(const CpuOptions& options) {
  SIGHTLINE_CHECK(cpu::IsAvailable(options.isa));
  return std::make_unique<cpu::CpuBackend>(cpu::KernelsFor(options.isa), std::string(NameOf(options.isa)),
                                           options.threads);
}

}  // namespace sightline
