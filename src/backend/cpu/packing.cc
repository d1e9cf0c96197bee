#include "backend/cpu/packing.h"

#include <algorithm>

#include "backend/cpu/panels.inl.h"

namespace sightline::cpu {
namespace {

PanelLayout WeightLayout(const CpuKernels& kernels, Precision precision, int64_t outputs, int64_t inputs) {
  return PanelLayout(kernels.lanes, kernels.panel_columns, precision == Precision::kBF16 ? 2 : 1, outputs, inputs);
}

float Convert(float value, float) { return value; }
uint16_t Convert(float value, uint16_t) { return BF16FromFloat(value); }

template <typename Element>
void PackInto(const PanelLayout& layout, std::span<const float> weight, std::span<std::byte> packed) {
  auto* panel = reinterpret_cast<Element*>(packed.data());
  std::fill_n(panel, layout.elements(), Element{0});
  for (int64_t first = 0; first < layout.columns; first += layout.panel_columns) {
    const int64_t width = layout.width(first);
    for (int64_t j = 0; j < std::min(width, layout.columns - first); ++j) {
      const float* row = &weight[static_cast<size_t>((first + j) * layout.depth)];
      Element* to = panel + layout.offset(first) + j * layout.pair;
      for (int64_t k = 0; k < layout.depth; ++k) {
        to[k / layout.pair * width * layout.pair + k % layout.pair] = Convert(row[k], Element{});
      }
    }
  }
}

}  // namespace

std::string PackedLayout(const CpuKernels& kernels, Precision precision) {
  const std::string panels = "panel" + std::to_string(kernels.panel_columns) + "x" + std::to_string(kernels.lanes);
  return precision == Precision::kF32 ? "f32-" + panels : "bf16-pairs-" + panels;
}

size_t PackedBytes(const CpuKernels& kernels, Precision precision, int64_t outputs, int64_t inputs) {
  const size_t element = precision == Precision::kF32 ? sizeof(float) : sizeof(uint16_t);
  return static_cast<size_t>(WeightLayout(kernels, precision, outputs, inputs).elements()) * element;
}

void Pack(const CpuKernels& kernels, Precision precision, std::span<const float> weight, int64_t outputs,
          int64_t inputs, std::span<std::byte> packed) {
  SIGHTLINE_CHECK(static_cast<int64_t>(weight.size()) == outputs * inputs);
  SIGHTLINE_CHECK(packed.size() == PackedBytes(kernels, precision, outputs, inputs));
  const PanelLayout layout = WeightLayout(kernels, precision, outputs, inputs);
  if (precision == Precision::kF32) {
    PackInto<float>(layout, weight, packed);
  } else {
    PackInto<uint16_t>(layout, weight, packed);
  }
}

}  // namespace sightline::cpu
