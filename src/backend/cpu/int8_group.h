// Private: numbers of the integer formats as they lie in memory. Included by files of different instruction sets: plain
// data only (kernels.h).
#pragma once

#include <cstdint>

namespace sightline::cpu {

inline constexpr int kGroupValues = 128;       // of a row of x
inline constexpr int kWeightGroupValues = 64;  // of the weights of an output: two scales for a group of x

// 128 values of a row: value = scale * integer. A row is kInt8RowParts times as many of these as it has groups: first
// the groups; then, only written where the processor multiplies no bytes, the integers again as 16-bit numbers, in the
// place of `bytes`: those of the first 64 of every group, then those of the last.
inline constexpr int kInt8RowParts = 3;
struct Int8Group {
  float scale;
  // For weights that are stored with an offset: -8 times the sums of integers, of the first and of the last 64, there
  // of those k with k % 4 < 2 and of the others.
  int16_t corrections[2][2];
  int32_t unused;
  int8_t bytes[kGroupValues];
};

// The integers of a part (half) of a group as 16-bit numbers.
inline int16_t* WordsOf(Int8Group* group, int64_t groups_of_row, int part) {
  return reinterpret_cast<int16_t*>(group[(1 + part) * groups_of_row].bytes);
}
inline const int16_t* WordsOf(const Int8Group* group, int64_t groups_of_row, int part) {
  return reinterpret_cast<const int16_t*>(group[(1 + part) * groups_of_row].bytes);
}

// One column's share of a panel's group: both halves of 64 inputs one after the other. The columns of a panel are
// interleaved, so only the size matters: first the scales of all columns, then the integers of a step (2 or 4 inputs)
// for all columns, the next step, and so on.
struct Int8Column {
  unsigned char bytes[2 * (sizeof(float) + kWeightGroupValues)];
};
// Integers are stored plus 8; the low half of a byte is that of one of the first 32 inputs, the high half that of the
// input 32 further.
struct Int4Column {
  unsigned char bytes[2 * (sizeof(float) + kWeightGroupValues / 2)];
};

// For rows that are not quantised: a group of 64 inputs, with the integers of one input for all columns at a step.
struct Int8WidenedColumn {
  unsigned char bytes[sizeof(float) + kWeightGroupValues];
};

inline constexpr int kInt4Offset = 8;
// Where the processor multiplies unsigned by signed bytes, int8 weights are stored plus 128.
inline constexpr int kInt8Offset = 128;

}  // namespace sightline::cpu
