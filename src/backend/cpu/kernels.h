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

enum class Nonlinearity { kNone, kGelu, kGeluTanh, kRelu };

// How rows are stored, see Storage in backend.h.
enum class RowFormat { kF32, kBF16, kInt8 };

// The outermost loop of a task. The sums are the same.
enum class MatmulOrder {
  kDepth,   // a part of x stays near while it meets all panels
  kPanels,  // reads the weights as they lie, each panel over its whole depth: for few rows, which wait for memory
};

// Where a product will be written, so that it can be brought near before.
struct OutputRows {
  char* at = nullptr;         // row 0, column 0; null: not known
  int64_t stride = 0;         // bytes from row to row
  int64_t element_bytes = 0;  // of a column
};

// Part of x * w^T: rows [row_begin, row_end) of x and columns [column_begin, column_end) of the product. column_begin
// is the first of a panel; column_end is too, or it is `outputs`.
struct MatmulTask {
  const void* x = nullptr;        // [rows, depth] in operand format
  int64_t x_stride = 0;           // elements from row to row
  const void* weights = nullptr;  // packed, see panels.inl.h
  int64_t depth = 0;              // elements: numbers, or groups of them (int8_group.h)
  int64_t outputs = 0;
  int64_t row_begin = 0, row_end = 0;
  int64_t column_begin = 0, column_end = 0;
  MatmulOrder order = MatmulOrder::kDepth;
  float* product = nullptr;  // scratch, ProductElements() floats
  // Where products are computed in tiles (tiles.inl.h): the order is theirs, and rows of x are copied to `row_tiles`,
  // so much of their depth at once, unless an earlier task did so.
  int64_t depth_at_once = 0;
  char* row_tiles = nullptr;
  bool rows_are_in_tiles = false;
  OutputRows output = {};
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

// Rows [row_begin, row_end), kSplitRows at most, of a projection whose columns are [heads of queries, keys,
// values][channel].
struct SplitHeadsTask {
  const float* projected = nullptr;
  int query_heads = 0;
  int key_heads = 0;
  int head_size = 0;
  const float* cosine = nullptr;  // [rows, head_size / 2]; null: nothing turns
  const float* sine = nullptr;
  bool neighbours_turn = false;  // channels 2p and 2p + 1, else p and p + head_size / 2
  float query_scale = 1;
  int64_t rows = 0;
  int64_t row_begin = 0, row_end = 0;
  int64_t first_key = 0;    // of row 0
  void* queries = nullptr;  // [key head][row][query heads of that key head][channel]
  void* keys = nullptr;     // of `capacity` keys, see HeadLayout
  void* values = nullptr;
  int64_t capacity = 0;
  float* scratch = nullptr;  // SplitHeadsScratchElements() floats
};

// Up to kQueryBlock query rows that read the same keys. Row i of the task is row first_row + i of the matrix of all
// such rows, in which `group` rows (query heads) follow each other for every row of the output.
struct AttentionTask {
  const void* queries = nullptr;  // [rows, head_size]
  const void* keys = nullptr;     // of one head, see HeadLayout
  const void* values = nullptr;
  int64_t capacity = 0;
  int head_size = 0;
  int64_t first_row = 0;
  int64_t rows = 0;
  int group = 1;
  int64_t key_count = 0;
  // Output row r sees the keys up to first_key + r where r < causal_rows, else all but hidden_key.
  int64_t causal_rows = 0;
  int64_t first_key = 0;
  int64_t hidden_key = -1;
  RowFormat format = RowFormat::kF32;  // not kInt8
  void* y = nullptr;                   // output row 0, first channel of the group
  int64_t y_stride = 0;
  float* scratch = nullptr;  // AttentionScratchElements() floats
};

// An operation on rows [row_begin, row_end), one by one.
struct RowTask {
  const float* x = nullptr;  // [rows, columns]; of SwiGlu [rows, 2 * columns]
  const float* gain = nullptr;
  const float* bias = nullptr;
  float epsilon = 0;
  int64_t columns = 0;
  int64_t row_begin = 0, row_end = 0;
  RowFormat format = RowFormat::kF32;
  void* y = nullptr;         // [rows, columns]
  float* scratch = nullptr;  // `columns` floats, for kInt8
};

// How the integers of an int8 matrix lie (int8_group.h): inputs of a column two or four at a time, as the processor
// multiplies them; those of kOffsetFours plus 128.
enum class Int8Layout { kPairs, kFours, kOffsetFours };

// What depends on the number format of the weights.
struct FormatKernels {
  RowFormat operand = RowFormat::kF32;
  void (*linear)(const MatmulTask& task, const LinearOutput& output) = nullptr;
  // Multiply-adds in registers; returns the number of operations done.
  int64_t (*spin)(int64_t rounds) = nullptr;
  // Where products are computed in tiles, and else null: bytes of rows in tiles. Part of the depth is a multiple of
  // tile_depth.
  int64_t (*row_tile_bytes)(int64_t rows, int64_t depth) = nullptr;
  int64_t tile_depth = 0;
  // The others are null in integer formats.
  // Rows of a task belong to one sequence, and row_begin is an even row of it.
  void (*qkv)(const MatmulTask& task, const float* bias, const HeadArrays& arrays) = nullptr;
  void (*split_heads)(const SplitHeadsTask& task) = nullptr;
  void (*attention)(const AttentionTask& task) = nullptr;
};

inline constexpr int64_t kReadBytes = 256;

struct CpuKernels {
  int lanes = 0;                 // floats in a vector
  int panel_columns = 0;         // columns of a full panel
  int rows_at_once = kTileRows;  // rows of a product whose sums are kept at once
  Int8Layout int8_layout = Int8Layout::kPairs;
  FormatKernels f32, bf16, int8, int8w, int4;
  void (*layer_norm)(const RowTask& task) = nullptr;
  void (*rms_norm)(const RowTask& task) = nullptr;
  void (*swiglu)(const RowTask& task) = nullptr;
  void (*convert)(const RowTask& task) = nullptr;
  // Loads memory, a multiple of kReadBytes, into registers and does nothing else.
  void (*read)(const void* from, int64_t bytes) = nullptr;
};

const CpuKernels& GenericKernels();
const CpuKernels& Avx2Kernels();
const CpuKernels& Avx512Kernels();
const CpuKernels& Avx512BF16Kernels();
const CpuKernels& AmxKernels();

}  // namespace sightline::cpu
