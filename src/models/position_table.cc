#include "models/position_table.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace sightline {
namespace {

struct Taps {
  std::array<int, 4> index;
  std::array<double, 4> weight;
};

// Keys' cubic convolution with A = -0.75, as torch.nn.functional.interpolate(mode="bicubic").
Taps CubicTaps(int output, double step) {
  constexpr double kA = -0.75;
  const auto near = [](double x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; };
  const auto far = [](double x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  const double source = step * (output + 0.5) - 0.5;
  const double base = std::floor(source);
  const double t = source - base;
  Taps taps{{}, {far(1 + t), near(t), near(1 - t), far(2 - t)}};
  for (int k = 0; k < 4; ++k) taps.index[k] = std::clamp(static_cast<int>(base) - 1 + k, 0, kTrainedGrid - 1);
  return taps;
}

}  // namespace

std::vector<float> ResamplePositions(std::span<const float> table, int width, Profile profile) {
  const double step =
      profile == Profile::kUpstream ? 1.0 / ((kGazeGrid + 0.1) / kTrainedGrid) : double{kTrainedGrid} / kGazeGrid;
  std::array<Taps, kGazeGrid> taps;
  for (int i = 0; i < kGazeGrid; ++i) taps[i] = CubicTaps(i, step);

  const size_t stride = static_cast<size_t>(width);
  std::vector<float> result((1 + kGazePatches) * stride);
  std::copy_n(table.begin(), stride, result.begin());
  std::vector<double> sum(stride);
  for (int y = 0; y < kGazeGrid; ++y) {
    for (int x = 0; x < kGazeGrid; ++x) {
      std::fill(sum.begin(), sum.end(), 0.0);
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
          const double weight = taps[y].weight[i] * taps[x].weight[j];
          const float* row = &table[(1 + taps[y].index[i] * kTrainedGrid + taps[x].index[j]) * stride];
          for (size_t c = 0; c < stride; ++c) sum[c] += weight * row[c];
        }
      }
      float* out = &result[(1 + y * kGazeGrid + x) * stride];
      for (size_t c = 0; c < stride; ++c) out[c] = static_cast<float>(sum[c]);
    }
  }
  return result;
}

}  // namespace sightline
