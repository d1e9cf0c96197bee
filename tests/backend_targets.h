// Everything that can run the kernels here: the instruction sets of this processor and, for those it may lack, the same
// source compiled against an emulation of the intrinsics (SIMDe), where that is installed.
#pragma once

#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa.h"

namespace sightline {

// Null where SIMDe is not installed.
const cpu::CpuKernels* EmulatedAvx512Kernels();
const cpu::CpuKernels* EmulatedAvx512BF16Kernels();
const cpu::CpuKernels* EmulatedAmxKernels();

struct Target {
  std::string name;
  const cpu::CpuKernels* kernels;
  Precision precision;

  // Slow: tests on it do less.
  bool emulated() const { return name.starts_with("emulated"); }

  std::unique_ptr<Backend> Make(int threads = 1) const {
    return std::make_unique<cpu::CpuBackend>(*kernels, name, threads);
  }
};

inline std::ostream& operator<<(std::ostream& out, const Target& target) {
  return out << target.name << "_" << NameOf(target.precision);
}

inline std::vector<Target> TargetsFor(std::initializer_list<Precision> precisions) {
  std::vector<Target> targets;
  const auto add = [&](std::string name, const cpu::CpuKernels* kernels) {
    if (kernels == nullptr) return;
    for (const Precision precision : precisions) targets.push_back({name, kernels, precision});
  };
  for (const Isa isa : kAllIsas) {
    if (cpu::IsAvailable(isa)) add(std::string(NameOf(isa)), &cpu::KernelsFor(isa));
  }
  add("emulated_avx512", EmulatedAvx512Kernels());
  add("emulated_avx512_bf16", EmulatedAvx512BF16Kernels());
  add("emulated_amx", EmulatedAmxKernels());
  return targets;
}

// In the formats whose operands are floating point, and in those whose are integers.
inline std::vector<Target> AllTargets() { return TargetsFor({Precision::kF32, Precision::kBF16}); }
inline std::vector<Target> IntegerTargets() { return TargetsFor({Precision::kInt8, Precision::kInt4}); }

inline std::string TargetName(const testing::TestParamInfo<Target>& info) { return testing::PrintToString(info.param); }

// Numbers in [-scale, scale), the same in every run.
inline std::vector<float> Noise(int64_t count, float scale, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  uint32_t state = seed * 2654435761u + 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = (static_cast<float>(state >> 8) / 8388608.0f - 1.0f) * scale;
  }
  return values;
}

inline std::vector<float> RowsOf(const std::vector<float>& values, int64_t columns, int64_t first, int64_t count) {
  return {values.begin() + first * columns, values.begin() + (first + count) * columns};
}

// A packed matrix and what it was made from.
struct TestWeights {
  std::vector<float> values;  // [outputs, inputs]
  std::vector<std::byte> packed;
  WeightMatrix matrix;

  TestWeights(const Backend& backend, Precision precision, std::vector<float> weight, int64_t outputs, int64_t inputs)
      : values(std::move(weight)), packed(backend.PackedBytes(precision, outputs, inputs)) {
    backend.Pack(precision, values, outputs, inputs, packed);
    matrix = {precision, outputs, inputs, packed};
  }
};

}  // namespace sightline
