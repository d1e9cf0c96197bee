#include "backend/cpu/packing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "backend/cpu/int8_group.h"
#include "backend/cpu/panels.inl.h"

namespace sightline::cpu {
namespace {

int64_t DepthOf(Precision precision, int64_t inputs) {
  switch (precision) {
    case Precision::kF32:
    case Precision::kBF16:
      return inputs;
    case Precision::kInt8:
    case Precision::kInt4:
      return RoundUp(inputs, kGroupValues) / kGroupValues;
    case Precision::kInt8Weights:
      return RoundUp(inputs, kWeightGroupValues) / kWeightGroupValues;
  }
  return inputs;
}

PanelLayout WeightLayout(const CpuKernels& kernels, Precision precision, int64_t outputs, int64_t inputs) {
  return PanelLayout(kernels.lanes, kernels.panel_columns, precision == Precision::kBF16 ? 2 : 1, outputs,
                     DepthOf(precision, inputs));
}

size_t ElementBytes(Precision precision) {
  switch (precision) {
    case Precision::kF32:
      return sizeof(float);
    case Precision::kBF16:
      return sizeof(uint16_t);
    case Precision::kInt8:
      return sizeof(Int8Column);
    case Precision::kInt8Weights:
      return sizeof(Int8WidenedColumn);
    case Precision::kInt4:
      return sizeof(Int4Column);
  }
  return 0;
}

float Convert(float value, float) { return value; }
uint16_t Convert(float value, uint16_t) { return BF16FromFloat(value); }

// Columns [first, last) of the packed matrix.
struct Columns {
  int64_t first = 0, last = 0;
};

template <typename Element>
void PackInto(const PanelLayout& layout, std::span<const float> weight, Columns columns, std::span<std::byte> packed) {
  auto* panel = reinterpret_cast<Element*>(packed.data());
  for (int64_t first = columns.first; first < columns.last; first += layout.panel_columns) {
    const int64_t width = layout.width(first);
    std::fill_n(panel + layout.offset(first), width * layout.padded_depth, Element{0});
    for (int64_t j = 0; j < std::min(width, layout.columns - first); ++j) {
      const float* row = &weight[static_cast<size_t>((first + j) * layout.depth)];
      Element* to = panel + layout.offset(first) + j * layout.pair;
      for (int64_t k = 0; k < layout.depth; ++k) {
        to[k / layout.pair * width * layout.pair + k % layout.pair] = Convert(row[k], Element{});
      }
    }
  }
}

// ---- integer formats

// Of `size`, ignoring the sign; not-a-number where there is one.
float Extreme(std::span<const float> values) {
  float extreme = 0;
  for (const float value : values) {
    if (std::isnan(value)) return value;
    if (std::abs(value) > std::abs(extreme)) extreme = value;
  }
  return extreme;
}

// Nearest whole number within [low, high], ties to even; low for not-a-number. (Adding 1.5 * 2^23 leaves no room for a
// fraction. std::nearbyint would be a call.)
float Rounded(float value, float low, float high) {
  const float clamped = value > low ? std::min(value, high) : low;
  return (clamped + 12582912.0f) - 12582912.0f;
}

float InverseOf(float scale) { return std::abs(scale) > 1e-35f ? 1 / scale : 0.0f; }

void QuantiseInt8(std::span<const float> weights, float& scale, std::span<int> integers) {
  scale = std::abs(Extreme(weights)) / 127;
  const float inverse = InverseOf(scale);
  for (size_t i = 0; i < weights.size(); ++i) integers[i] = static_cast<int>(Rounded(weights[i] * inverse, -127, 127));
}

// Whole numbers that the extreme weight may become. A negative scale turns the range [-8, 7] round.
constexpr std::array kInt4Extremes = {-9.0f, -8.5f, -8.0f, -7.5f, -7.0f, 7.0f, 7.5f};

// The one of a few scales with the smallest squared error.
void QuantiseInt4(std::span<const float> weights, float& scale, std::span<int> integers) {
  const float extreme = Extreme(weights);
  float least = INFINITY;
  scale = extreme / kInt4Extremes.front();
  for (const float target : kInt4Extremes) {
    const float candidate = extreme / target, inverse = InverseOf(candidate);
    float error = 0;
    for (const float weight : weights) {
      const float difference = weight - candidate * Rounded(weight * inverse, -8, 7);
      error += difference * difference;
    }
    if (error >= least) continue;
    least = error;
    scale = candidate;
  }
  const float inverse = InverseOf(scale);
  for (size_t i = 0; i < weights.size(); ++i) integers[i] = static_cast<int>(Rounded(weights[i] * inverse, -8, 7));
}

// 64 weights of an output, filled up with zeros, to a column of a panel of `width` columns.
struct ColumnPlace {
  std::byte* block = nullptr;  // of the group: scales, then integers
  int64_t width = 0;
  int64_t column = 0;

  void PutScale(float scale) const {
    std::memcpy(block + column * static_cast<int64_t>(sizeof scale), &scale, sizeof scale);
  }
  // Of the integers' bytes: `step` counts steps of `bytes` bytes a column.
  std::byte& At(int64_t step, int64_t bytes, int64_t byte) const {
    return block[width * static_cast<int64_t>(sizeof(float)) + (step * width + column) * bytes + byte];
  }
};

// `step` inputs of a column lie side by side.
void PackInt8Column(std::span<const float> weights, int64_t step, int offset, const ColumnPlace& place) {
  std::array<int, kWeightGroupValues> integers;
  float scale = 0;
  QuantiseInt8(weights, scale, integers);
  place.PutScale(scale);
  for (int64_t k = 0; k < kWeightGroupValues; ++k) {
    place.At(k / step, step, k % step) = static_cast<std::byte>(integers[static_cast<size_t>(k)] + offset);
  }
}

void PackInt4Column(std::span<const float> weights, const ColumnPlace& place) {
  std::array<int, kWeightGroupValues> integers;
  float scale = 0;
  QuantiseInt4(weights, scale, integers);
  place.PutScale(scale);
  constexpr int64_t kHalf = kWeightGroupValues / 2;
  for (int64_t k = 0; k < kHalf; ++k) {
    const int low = integers[static_cast<size_t>(k)] + kInt4Offset;
    const int high = integers[static_cast<size_t>(k + kHalf)] + kInt4Offset;
    place.At(k / 4, 4, k % 4) = static_cast<std::byte>(low | high << 4);
  }
}

// Calls pack(weights of one group and output, place) for all; an element of the layout has `parts` groups. Columns
// beyond the outputs are all zeros, so their scale is too.
template <typename Pack>
void PackGroups(const PanelLayout& layout, int64_t parts, int64_t part_bytes, std::span<const float> weight,
                int64_t inputs, Columns columns, std::span<std::byte> packed, Pack pack) {
  const int64_t groups = layout.depth * parts;
  std::vector<float> padded(static_cast<size_t>(groups * kWeightGroupValues));
  const int64_t end = columns.last == layout.columns ? layout.padded_columns : columns.last;
  for (int64_t column = columns.first; column < end; ++column) {
    std::ranges::fill(padded, 0.0f);
    if (column < layout.columns) std::copy_n(&weight[static_cast<size_t>(column * inputs)], inputs, padded.begin());
    const int64_t first = column / layout.panel_columns * layout.panel_columns, width = layout.width(first);
    for (int64_t group = 0; group < groups; ++group) {
      const ColumnPlace place{packed.data() + (layout.offset(first) * parts + group * width) * part_bytes, width,
                              column - first};
      pack(std::span(padded).subspan(static_cast<size_t>(group * kWeightGroupValues), size_t{kWeightGroupValues}),
           place);
    }
  }
}

std::string_view NameOf(Int8Layout layout) {
  switch (layout) {
    case Int8Layout::kPairs:
      return "int8-pairs";
    case Int8Layout::kFours:
      return "int8-fours";
    case Int8Layout::kOffsetFours:
      return "uint8-fours";
  }
  return "";
}

}  // namespace

std::string PackedLayout(const CpuKernels& kernels, Precision precision) {
  const std::string panels = "panel" + std::to_string(kernels.panel_columns) + "x" + std::to_string(kernels.lanes);
  switch (precision) {
    case Precision::kF32:
      return "f32-" + panels;
    case Precision::kBF16:
      return "bf16-pairs-" + panels;
    case Precision::kInt8:
      return std::string(NameOf(kernels.int8_layout)) + "-group64-" + panels;
    case Precision::kInt8Weights:
      return "int8-rows-group64-" + panels;
    case Precision::kInt4:
      return "int4-group64-" + panels;
  }
  return panels;
}

size_t PackedBytes(const CpuKernels& kernels, Precision precision, int64_t outputs, int64_t inputs) {
  return static_cast<size_t>(WeightLayout(kernels, precision, outputs, inputs).elements()) * ElementBytes(precision);
}

void Pack(const CpuKernels& kernels, Precision precision, std::span<const float> weight, int64_t outputs,
          int64_t inputs, int64_t first, int64_t last, std::span<std::byte> packed) {
  SIGHTLINE_CHECK(static_cast<int64_t>(weight.size()) == outputs * inputs);
  SIGHTLINE_CHECK(packed.size() == PackedBytes(kernels, precision, outputs, inputs));
  const PanelLayout layout = WeightLayout(kernels, precision, outputs, inputs);
  const Columns columns{first, last};
  const auto pack_int8 = [&](int64_t parts, int64_t step, int offset) {
    PackGroups(layout, parts, sizeof(Int8WidenedColumn), weight, inputs, columns, packed,
               [&](std::span<const float> weights, const ColumnPlace& place) {
                 PackInt8Column(weights, step, offset, place);
               });
  };
  constexpr int64_t kParts = kGroupValues / kWeightGroupValues;
  switch (precision) {
    case Precision::kF32:
      return PackInto<float>(layout, weight, columns, packed);
    case Precision::kBF16:
      return PackInto<uint16_t>(layout, weight, columns, packed);
    case Precision::kInt8:
      return pack_int8(kParts, kernels.int8_layout == Int8Layout::kPairs ? 2 : 4,
                       kernels.int8_layout == Int8Layout::kOffsetFours ? kInt8Offset : 0);
    case Precision::kInt8Weights:
      return pack_int8(1, 1, 0);
    case Precision::kInt4:
      return PackGroups(
          layout, kParts, sizeof(Int4Column) / kParts, weight, inputs, columns, packed,
          [](std::span<const float> weights, const ColumnPlace& place) { PackInt4Column(weights, place); });
  }
}

}  // namespace sightline::cpu
