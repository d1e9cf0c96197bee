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
Taps CubicTaps(int output, double step, int side) {
  constexpr double kA = -0.75;
  const auto near = [](double x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; };
  const auto far = [](double x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  const double source = step * (output + 0.5) - 0.5;
  const double base = std::floor(source);
  const double t = source - base;
  Taps taps{{}, {far(1 + t), near(t), near(1 - t), far(2 - t)}};
  for (int k = 0; k < 4; ++k) taps.index[k] = std::clamp(static_cast<int>(base) - 1 + k, 0, side - 1);
  return taps;
}

std::vector<Taps> AxisTaps(int outputs, double step, int side) {
  std::vector<Taps> taps;
  for (int i = 0; i < outputs; ++i) taps.push_back(CubicTaps(i, step, side));
  return taps;
}

// table: [side, side, width] to out: [vertical.size() * horizontal.size(), width].
void Resample(std::span<const float> table, int side, size_t width, const std::vector<Taps>& vertical,
              const std::vector<Taps>& horizontal, float* out) {
  const size_t side_stride = static_cast<size_t>(side) * width;
  std::vector<double> lines(side_stride);  // one output row, not yet resampled across
  std::vector<double> sum(width);
  for (const Taps& row : vertical) {
    std::ranges::fill(lines, 0.0);
    for (size_t k = 0; k < 4; ++k) {
      const float* from = &table[static_cast<size_t>(row.index[k]) * side_stride];
      for (size_t i = 0; i < side_stride; ++i) lines[i] += row.weight[k] * from[i];
    }
    for (const Taps& column : horizontal) {
      std::ranges::fill(sum, 0.0);
      for (size_t k = 0; k < 4; ++k) {
        const double* from = &lines[static_cast<size_t>(column.index[k]) * width];
        for (size_t c = 0; c < width; ++c) sum[c] += column.weight[k] * from[c];
      }
      out = std::ranges::transform(sum, out, [](double value) { return static_cast<float>(value); }).out;
    }
  }
}

}  // namespace

std::vector<float> ResamplePositions(std::span<const float> table, int width, Profile profile) {
  const double step =
      profile == Profile::kUpstream ? 1.0 / ((kGazeGrid + 0.1) / kTrainedGrid) : double{kTrainedGrid} / kGazeGrid;
  const std::vector<Taps> taps = AxisTaps(kGazeGrid, step, kTrainedGrid);
  const size_t stride = static_cast<size_t>(width);
  std::vector<float> result((1 + kGazePatches) * stride);
  std::copy_n(table.begin(), stride, result.begin());
  Resample(table.subspan(stride), kTrainedGrid, stride, taps, taps, &result[stride]);
  return result;
}

std::vector<float> ResizePositionGrid(std::span<const float> table, int side, int width, PatchGrid grid) {
  std::vector<float> result(static_cast<size_t>(grid.patches()) * static_cast<size_t>(width));
  Resample(table, side, static_cast<size_t>(width), AxisTaps(grid.height, double{1} * side / grid.height, side),
           AxisTaps(grid.width, double{1} * side / grid.width, side), result.data());
  return result;
}

}  // namespace sightline
