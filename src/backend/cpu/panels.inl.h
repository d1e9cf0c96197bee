// Private: how the right-hand matrix of a product lies in memory. Weights, keys and values share one arrangement, so
// one inner loop reads all three:
//
//   The matrix has `depth` rows (summed over) and `columns`. Columns are grouped into panels of `panel_columns`; the
//   last panel is as narrow as whole vectors allow. Inside a panel of width w the element (k, j) is number
//       (k / pair * w + j) * pair + k % pair
//   where pair is 2 for bfloat16 (a 32-bit lane holds two consecutive k) and 1 for float32. For the integer formats an
//   "element" is one column's share of a group of 128 k (int8_group.h), and pair is 1.
//
// Included by files of different instruction sets, hence the unnamed namespace (kernels.h).
#pragma once

#include <cstdint>

#include "backend/cpu/kernels.h"

namespace sightline::cpu {
namespace {

constexpr int64_t RoundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
constexpr int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }

struct PanelLayout {
  int panel_columns;
  int pair;
  int64_t columns, depth;
  int64_t padded_columns, padded_depth;

  constexpr PanelLayout(int lanes, int full_panel_columns, int elements_of_lane, int64_t matrix_columns,
                        int64_t matrix_depth)
      : panel_columns(full_panel_columns),
        pair(elements_of_lane),
        columns(matrix_columns),
        depth(matrix_depth),
        padded_columns(RoundUp(columns, lanes)),
        padded_depth(RoundUp(depth, pair)) {}

  constexpr int64_t elements() const { return padded_columns * padded_depth; }
  // For the panel that starts at column `first`.
  constexpr int64_t offset(int64_t first) const { return first * padded_depth; }
  constexpr int64_t width(int64_t first) const { return Smaller(panel_columns, padded_columns - first); }
};

// Keys and values of heads hold one block per (sequence, head), in that order. Keys are the columns of the first
// product of attention, so [head_size deep, length columns]; values are [length deep, head_size columns]. The queries
// of Qkv are rows, as [length, head_size].
struct HeadLayout {
  PanelLayout keys, values;
  int64_t key_elements, value_elements;
};

// Whole cache lines per head.
constexpr int64_t QueryElements(int64_t length, int64_t head_size) { return RoundUp(length * head_size, 32); }

constexpr HeadLayout MakeHeadLayout(int lanes, int panel_columns, int pair, int64_t length, int head_size) {
  const PanelLayout keys(lanes, panel_columns, pair, length, head_size);
  const PanelLayout values(lanes, panel_columns, pair, head_size, length);
  return {keys, values, RoundUp(keys.elements(), 32), RoundUp(values.elements(), 32)};
}

constexpr HeadLayout MakeHeadLayout(const CpuKernels& kernels, bool bf16, int64_t length, int head_size) {
  return MakeHeadLayout(kernels.lanes, kernels.panel_columns, bf16 ? 2 : 1, length, head_size);
}

// A sum over a long row of x pauses in memory after this many k, so that the part of x and of the panel being read stay
// in the second-level cache. Depends on nothing but the depth: the order of summation is part of a row's bits.
constexpr int64_t kDepthBlockBytes = 3072;
constexpr int64_t DepthBlock(int64_t depth, int64_t element_bytes) {
  const int64_t blocks = (depth * element_bytes + kDepthBlockBytes - 1) / kDepthBlockBytes;
  return RoundUp((depth + blocks - 1) / blocks, 2);
}

// Distance between two rows of a product in scratch. Never a multiple of 1024 bytes, which would put all rows of a tile
// into a few sets of the first-level cache.
constexpr int64_t ProductStride(int64_t columns, int64_t panel_columns) {
  const int64_t stride = RoundUp(columns, panel_columns);
  return stride % 256 == 0 ? stride + 16 : stride;
}

// Floats of scratch for a MatmulTask.
constexpr int64_t ProductElements(int64_t rows, int64_t columns, const CpuKernels& kernels) {
  return RoundUp(rows, kernels.rows_at_once) * ProductStride(columns, kernels.panel_columns);
}

// Distance between two rows of scores. Never a multiple of 4096 bytes, which would put all rows of a tile in one set of
// the first-level cache.
constexpr int64_t ScoreStride(int64_t length) {
  const int64_t stride = RoundUp(length, 64);
  return stride % 1024 == 0 ? stride + 16 : stride;
}

// Query rows handled together at most, so that keys and values are read from the nearest cache.
constexpr int64_t kQueryBlock = 32;
// Whole tiles of them.
constexpr int64_t QueriesAtOnce(int rows_at_once) { return kQueryBlock / rows_at_once * rows_at_once; }

// Keys whose scores are kept at once, so that no memory grows with the number of keys. A multiple of every panel.
constexpr int64_t kKeyBlock = 2048;

constexpr int64_t AttentionScratchElements(int64_t keys, int head_size, int panel_columns) {
  return kQueryBlock * (ScoreStride(Smaller(keys, kKeyBlock)) + panel_columns + RoundUp(head_size, panel_columns));
}

// Whole vectors of every instruction set.
constexpr int64_t kMostLanes = 16;
// Rows of a SplitHeadsTask at most: one head's keys of all of them are written together, since they share cache lines.
constexpr int64_t kSplitRows = 16;
constexpr int64_t SplitHeadsScratchElements(int head_size) {
  return (2 * kSplitRows + 3) * RoundUp(head_size, kMostLanes);
}

}  // namespace
}  // namespace sightline::cpu
