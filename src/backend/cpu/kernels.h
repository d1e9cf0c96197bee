// Private: the heavy loops of the CPU backend, once per instruction set, behind tables of functions.
//
// Each kernels_<isa>.cc is compiled with that instruction set's flags and fills one table. Those files include nothing
// that defines inline functions with external linkage: the linker keeps one copy of such a function, and it could be
// the one that only newer processors can run.
#pragma once

#include <cstdint>

namespace sightline::cpu {

// A product of matrices is computed in tiles of this many rows.
inline constexpr int kTileRows = 6;

enum class Nonlinearity { kNone, kGelu, kRelu };

// Part of x * w^T: rows [row_begin, row_end) of x and columns [column_begin, column_end) of the product. column_begin
// is the first of a panel; column_end is too, or it is `outputs`.
struct MatmulTask {
  const void* x = nullptr;        // [rows, depth] in operand format
  int64_t x_stride = 0;           // elements from row to row
  const void* weights = nullptr;  // packed, see panels.inl.h
  int64_t depth = 0;
  int64_t outputs = 0;
  int64_t row_begin = 0, row_end = 0;
  int64_t column_begin = 0, column_end = 0;
  float* product = nullptr;  // scratch, ProductElements() floats
};

enum class LinearSink { kStoreF32, kStoreBF16, kAddF32 };

struct LinearOutput {
  const float* bias = nullptr;  // null: none
  Nonlinearity nonlinearity = Nonlinearity::kNone;
  LinearSink sink = LinearSink::kStoreF32;
  void* y = nullptr;  // [rows, outputs]
};

// Where the heads of all sequences lie; see HeadLayout in panels.inl.h.
struct HeadArrays {
  void* queries = nullptr;
  void* keys = nullptr;
  void* values = nullptr;
  int64_t length = 0;  // rows of a sequence
  int heads = 0;
  int head_size = 0;
};

// Queries [row_begin, row_end) of one head of one sequence.
struct AttentionTask {
  HeadArrays arrays;
  int64_t sequence = 0;
  int head = 0;
  int64_t row_begin = 0, row_end = 0;
  void* y = nullptr;        // [sequences * length, heads * head_size] in operand format
  float* scores = nullptr;  // scratch, AttentionScratchElements() floats
};

struct LayerNormTask {
  const float* x = nullptr;  // [rows, columns]
  const float* gain = nullptr;
  const float* bias = nullptr;
  float epsilon = 0;
  int64_t columns = 0;
  int64_t row_begin = 0, row_end = 0;
  bool store_bf16 = false;
  void* y = nullptr;  // [rows, columns]
};

// What depends on the number format of the weights.
struct FormatKernels {
  bool bf16_operands = false;  // else float32
  void (*linear)(const MatmulTask& task, const LinearOutput& output) = nullptr;
  // Rows of a task belong to one sequence, and row_begin is an even row of it.
  void (*qkv)(const MatmulTask& task, const float* bias, const HeadArrays& arrays) = nullptr;
  void (*attention)(const AttentionTask& task) = nullptr;
  // Multiply-adds in registers; returns the number of floating-point operations done.
  int64_t (*spin)(int64_t rounds) = nullptr;
};

struct CpuKernels {
  int lanes = 0;          // floats in a vector
  int panel_columns = 0;  // columns of a full panel
  FormatKernels f32, bf16;
  void (*layer_norm)(const LayerNormTask& task) = nullptr;
};

const CpuKernels& GenericKernels();
const CpuKernels& Avx2Kernels();
const CpuKernels& Avx512Kernels();
const CpuKernels& Avx512BF16Kernels();

}  // namespace sightline::cpu
