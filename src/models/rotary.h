// Tables of rotary position embeddings.
#pragma once

#include <vector>

#include "backend/backend.h"

namespace sightline {

// f_i = theta^(-step * i / size) for i in [0, count), in the order of roundings of the official code: exponent float32,
// power in double, reciprocal float32 (other orders drift by 3e-5 at column 500).
std::vector<float> RotaryFrequencies(double theta, int size, int step, int count);

// Cosine and sine of an angle for every row and pair.
class RotaryTable {
 public:
  RotaryTable(size_t rows, size_t pairs);
  void Set(size_t row, size_t pair, float angle);

  std::span<const float> cosine() const { return cosine_; }  // [rows, pairs]
  std::span<const float> sine() const { return sine_; }
  Rope Rows(RopePairs style, int64_t first, int64_t count) const;

 private:
  size_t pairs_;
  std::vector<float> cosine_, sine_;
};

}  // namespace sightline
