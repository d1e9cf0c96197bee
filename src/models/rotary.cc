#include "models/rotary.h"

#include <cmath>

namespace sightline {

std::vector<float> RotaryFrequencies(double theta, int size, int step, int count) {
  std::vector<float> frequencies;
  for (int i = 0; i < count; ++i) {
    const float exponent = static_cast<float>(step * i) / static_cast<float>(size);
    const auto power = static_cast<float>(std::pow(theta, double{exponent}));
    frequencies.push_back(1.0f / power);
  }
  return frequencies;
}

RotaryTable::RotaryTable(size_t rows, size_t pairs) : pairs_(pairs), cosine_(rows * pairs), sine_(rows * pairs) {}

void RotaryTable::Set(size_t row, size_t pair, float angle) {
  cosine_[row * pairs_ + pair] = std::cos(angle);
  sine_[row * pairs_ + pair] = std::sin(angle);
}

Rope RotaryTable::Rows(RopePairs style, int64_t first, int64_t count) const {
  const size_t begin = static_cast<size_t>(first) * pairs_, size = static_cast<size_t>(count) * pairs_;
  return {style, cosine().subspan(begin, size), sine().subspan(begin, size)};
}

}  // namespace sightline
