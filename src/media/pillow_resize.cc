// Pillow's 8-bit resize, bit by bit: src/libImaging/Resample.c.
#include <cmath>
#include <cstring>

#include "media/resample.h"

namespace sightline {
namespace {

constexpr int kBits = 22;  // of weights in fixed point

// One pixel in one vector register; the fourth lane is whatever byte comes next.
using Lanes = int32_t __attribute__((vector_size(16)));

double Bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}

// Half up, away from zero; without a library call for each weight.
int32_t Fixed(double weight) { return static_cast<int32_t>(weight * (1 << kBits) + (weight < 0 ? -0.5 : 0.5)); }

// Weights in double, then fixed point. The kernel reaches `reach` to either side.
Axis<int32_t> PillowAxis(int from, int to, double (*kernel)(double), double reach) {
  const double scale = static_cast<double>(from) / to;
  const double stretch = std::max(scale, 1.0), support = reach * stretch;
  Axis<int32_t> axis;
  std::vector<double> exact;
  for (int i = 0; i < to; ++i) {
    const double center = (i + 0.5) * scale;
    const int first = std::max(static_cast<int>(center - support + 0.5), 0);
    const int count = std::min(static_cast<int>(center + support + 0.5), from) - first;
    axis.windows.push_back({first, count, axis.weights.size()});
    exact.clear();
    double total = 0;
    for (int j = 0; j < count; ++j) {
      exact.push_back(kernel((j + first - center + 0.5) * (1.0 / stretch)));
      total += exact.back();
    }
    for (const double weight : exact) axis.weights.push_back(Fixed(weight / total));
  }
  return axis;
}

uint8_t Clip(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255)); }

void ExpandRow(const uint8_t* rgb, std::span<Lanes> out) {
  for (Lanes& pixel : out) {
    pixel = Lanes{rgb[0], rgb[1], rgb[2], 0};
    rgb += 3;
  }
}

// The two inner loops. Integers, so every processor gives the same.
[[gnu::always_inline]] inline void ResizeRowLoop(const Axis<int32_t>& axis, const Lanes* row, uint8_t* out) {
  constexpr int32_t kHalf = 1 << (kBits - 1);
  for (const auto& window : axis.windows) {
    const int32_t* weights = axis.weights.data() + window.begin;
    const Lanes* pixel = row + window.first;
    Lanes sum = {kHalf, kHalf, kHalf, kHalf};
    for (int j = 0; j < window.count; ++j) sum += pixel[j] * weights[j];
    sum >>= kBits;
    sum = sum < 0 ? Lanes{} : sum;
    sum = sum > 255 ? Lanes{255, 255, 255, 255} : sum;
    for (int c = 0; c < 3; ++c) *out++ = static_cast<uint8_t>(sum[c]);
  }
}

[[gnu::always_inline]] inline void AddRowLoop(const uint8_t* __restrict row, int32_t weight, std::span<int32_t> sums) {
  int32_t* __restrict out = sums.data();
  for (size_t x = 0; x < sums.size(); ++x) out[x] += row[x] * weight;
}

// Compiled once more for processors that multiply vectors of 32-bit integers in one instruction.
struct Loops {
  void (*resize_row)(const Axis<int32_t>& axis, const Lanes* row, uint8_t* out);
  void (*add_row)(const uint8_t* row, int32_t weight, std::span<int32_t> sums);
};
void ResizeRow(const Axis<int32_t>& axis, const Lanes* row, uint8_t* out) { ResizeRowLoop(axis, row, out); }
void AddRow(const uint8_t* row, int32_t weight, std::span<int32_t> sums) { AddRowLoop(row, weight, sums); }
#if defined(__x86_64__)
[[gnu::target("avx2")]] void ResizeRowAvx2(const Axis<int32_t>& axis, const Lanes* row, uint8_t* out) {
  ResizeRowLoop(axis, row, out);
}
[[gnu::target("avx2")]] void AddRowAvx2(const uint8_t* row, int32_t weight, std::span<int32_t> sums) {
  AddRowLoop(row, weight, sums);
}
Loops ChooseLoops() {
  return __builtin_cpu_supports("avx2") ? Loops{ResizeRowAvx2, AddRowAvx2} : Loops{ResizeRow, AddRow};
}
#else
Loops ChooseLoops() { return {ResizeRow, AddRow}; }
#endif

// A pass whose size does not change has the weights 1 and 0, so leaving it out is the same.
Image Resize(const Image& image, int width, int height, double (*kernel)(double), double reach) {
  CheckImage(image);
  SIGHTLINE_CHECK(width > 0 && height > 0);
  if (width == image.width && height == image.height) return image;
  const Axis<int32_t> columns = PillowAxis(image.width, width, kernel, reach);
  const Axis<int32_t> rows = PillowAxis(image.height, height, kernel, reach);
  const size_t stride = static_cast<size_t>(width) * 3;
  Image out{width, height, std::vector<uint8_t>(stride * static_cast<size_t>(height))};
  std::vector<Lanes> pixels(static_cast<size_t>(image.width));
  std::vector<int32_t> sums(stride);
  const Loops loops = ChooseLoops();

  const auto horizontal = [&](int y, uint8_t* row) {
    if (width == image.width) {
      std::memcpy(row, RowOf(image, y), stride);
      return;
    }
    ExpandRow(RowOf(image, y), pixels);
    loops.resize_row(columns, pixels.data(), row);
  };
  const auto vertical = [&](int i, std::span<const uint8_t* const> window) {
    const auto weights = rows.WeightsOf(rows.windows[static_cast<size_t>(i)]);
    std::fill(sums.begin(), sums.end(), 1 << (kBits - 1));
    for (size_t j = 0; j < window.size(); ++j) loops.add_row(window[j], weights[j], sums);
    std::transform(sums.begin(), sums.end(), out.rgb.data() + static_cast<size_t>(i) * stride, Clip);
  };
  ResizeRows<uint8_t>(rows, stride, horizontal, vertical);
  return out;
}

}  // namespace

Image ResizePillowBilinear(const Image& image, int width, int height) {
  return Resize(image, width, height, Triangle<double>, 1);
}

Image ResizePillowBicubic(const Image& image, int width, int height) {
  return Resize(image, width, height, Bicubic, 2);
}

RescalePlan PlanRescale(int width, int height, int64_t token_limit) {
  constexpr int kPatch = 14, kStep = 28;  // two patches: they are merged two by two
  SIGHTLINE_CHECK(width > 0 && height > 0 && token_limit > 0);
  RescalePlan plan{width, height, 0, 0};
  const int64_t patches = int64_t{width / kPatch} * (height / kPatch);
  if (patches > token_limit) {
    const double scale = std::sqrt(static_cast<double>(token_limit) / static_cast<double>(patches));
    plan.step_width = std::max(static_cast<int>(width * scale), 1);
    plan.step_height = std::max(static_cast<int>(height * scale), 1);
  }
  plan.width = (plan.step_width + kStep - 1) / kStep * kStep;
  plan.height = (plan.step_height + kStep - 1) / kStep * kStep;
  return plan;
}

}  // namespace sightline
