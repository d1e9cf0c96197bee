#include <algorithm>
#include <array>
#include <cmath>

#include "media/media.h"
#include "media/resample.h"

namespace sightline {
namespace {

// ATen/native/cpu/UpSampleKernel.cpp, HelperInterpLinear with antialias. Every float and double below is as it is
// there: the rounding of `center` and of the weights is part of the result.
Axis<float> TorchAxis(int from, int to) {
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  const float support = scale >= 1 ? scale : 1.0F;
  const float inverse = scale >= 1 ? static_cast<float>(1.0 / scale) : 1.0F;
  Axis<float> axis;
  for (int i = 0; i < to; ++i) {
    const auto center = static_cast<float>(scale * (i + 0.5));
    const int first = std::max(static_cast<int>(center - support + 0.5), 0);
    const int count = std::min(static_cast<int>(center + support + 0.5), from) - first;
    axis.windows.push_back({first, count, axis.weights.size()});
    float total = 0;
    for (int j = 0; j < count; ++j) {
      const float distance = static_cast<float>(j + first) - center;
      axis.weights.push_back(Triangle(static_cast<float>((distance + 0.5) * inverse)));
      total += axis.weights.back();
    }
    for (float& weight : std::span(axis.weights).last(static_cast<size_t>(count))) weight /= total;
  }
  return axis;
}

float Between(float a, float b, float fraction) { return a + (b - a) * fraction; }

// torchvision ToTensor and Normalize: value / 255, minus mean, over deviation, each rounded to float.
struct Normalization {
  std::array<std::array<float, 256>, 3> table;

  Normalization() {
    constexpr std::array<float, 3> kMean = {0.485F, 0.456F, 0.406F};
    constexpr std::array<float, 3> kDeviation = {0.229F, 0.224F, 0.225F};
    for (size_t c = 0; c < 3; ++c) {
      for (size_t v = 0; v < 256; ++v) table[c][v] = (static_cast<float>(v) / 255.0F - kMean[c]) / kDeviation[c];
    }
  }
};
const Normalization& ImageNet() {
  static const Normalization normalization;
  return normalization;
}

// One pixel in one vector register; the fourth lane is 0.
struct Rgbx {
  using Lanes = float __attribute__((vector_size(16)));
  Lanes lanes;
};

void NormalizeRow(const uint8_t* rgb, std::span<Rgbx> out) {
  const auto& [red, green, blue] = ImageNet().table;
  for (Rgbx& pixel : out) {
    pixel.lanes = Rgbx::Lanes{red[rgb[0]], green[rgb[1]], blue[rgb[2]], 0};
    rgb += 3;
  }
}

// `planes` is [3, axis.size()].
void ShrinkRow(const Axis<float>& axis, const Rgbx* row, float* planes) {
  const int size = axis.size();
  for (int x = 0; x < size; ++x) {
    const auto& window = axis.windows[static_cast<size_t>(x)];
    const float* weights = axis.weights.data() + window.begin;
    const Rgbx* pixel = row + window.first;
    Rgbx::Lanes sum = {};
    for (int j = 0; j < window.count; ++j) sum += pixel[j].lanes * weights[j];
    planes[x] = sum[0];
    planes[size + x] = sum[1];
    planes[2 * size + x] = sum[2];
  }
}

}  // namespace

std::vector<float> ResizeUpstream(const Image& image, int size) {
  CheckImage(image);
  SIGHTLINE_CHECK(size > 0);
  const Axis<float> columns = TorchAxis(image.width, size);
  const Axis<float> rows = TorchAxis(image.height, size);
  const auto side = static_cast<size_t>(size);
  std::vector<Rgbx> pixels(static_cast<size_t>(image.width));
  std::vector<float> out(3 * side * side);

  const auto horizontal = [&](int y, float* planes) {
    NormalizeRow(RowOf(image, y), pixels);
    ShrinkRow(columns, pixels.data(), planes);
  };
  const auto vertical = [&](int i, std::span<const float* const> window) {
    const auto weights = rows.WeightsOf(rows.windows[static_cast<size_t>(i)]);
    for (size_t c = 0; c < 3; ++c) {
      float* line = out.data() + (c * side + static_cast<size_t>(i)) * side;
      for (size_t j = 0; j < window.size(); ++j) {
        const float* row = window[j] + c * side;
        const float weight = weights[j];
        for (size_t x = 0; x < side; ++x) line[x] += row[x] * weight;
      }
    }
  };
  ResizeRows<float>(rows, 3 * side, horizontal, vertical);
  return out;
}

std::vector<float> ResizePort(const Image& image, int size) {
  const Image small = ResizePillowBilinear(image, size, size);
  const auto& table = ImageNet().table;
  const size_t pixels = small.rgb.size() / 3;
  std::vector<float> out(3 * pixels);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < pixels; ++i) out[c * pixels + i] = table[c][small.rgb[3 * i + c]];
  }
  return out;
}

std::vector<float> EnlargeBilinear(std::span<const float> values, int from_width, int from_height, int width,
                                   int height) {
  SIGHTLINE_CHECK(from_width > 0 && from_height > 0 && width > 0 && height > 0);
  SIGHTLINE_CHECK(values.size() == static_cast<size_t>(from_width) * static_cast<size_t>(from_height));
  struct Tap {
    size_t low, high;
    float fraction;
  };
  const auto taps_of = [](int from, int to) {
    std::vector<Tap> taps;
    for (int i = 0; i < to; ++i) {
      const float center =
          std::clamp((static_cast<float>(i) + 0.5F) * static_cast<float>(from) / static_cast<float>(to) - 0.5F, 0.0F,
                     static_cast<float>(from - 1));
      const auto low = static_cast<size_t>(center);
      taps.push_back({low, std::min(low + 1, static_cast<size_t>(from) - 1), center - static_cast<float>(low)});
    }
    return taps;
  };
  const std::vector<Tap> columns = taps_of(from_width, width);
  std::vector<float> out;
  out.reserve(static_cast<size_t>(width) * static_cast<size_t>(height));
  for (const Tap& row : taps_of(from_height, height)) {
    const float* above = values.data() + row.low * static_cast<size_t>(from_width);
    const float* below = values.data() + row.high * static_cast<size_t>(from_width);
    for (const Tap& column : columns) {
      const float top = Between(above[column.low], above[column.high], column.fraction);
      const float bottom = Between(below[column.low], below[column.high], column.fraction);
      out.push_back(Between(top, bottom, row.fraction));
    }
  }
  return out;
}

}  // namespace sightline
