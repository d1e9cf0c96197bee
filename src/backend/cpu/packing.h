// Private: weights to panels (panels.inl.h) and back.
#pragma once

#include <span>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/kernels.h"

namespace sightline::cpu {

std::string PackedLayout(const CpuKernels& kernels, Precision precision);
size_t PackedBytes(const CpuKernels& kernels, Precision precision, int64_t outputs, int64_t inputs);
// weight is [outputs, inputs], row-major. Padding is zero. Only the panels of the columns [first, last) are written, so
// that several threads can share the work; `first` is the first column of a panel, `last` too or `outputs`.
void Pack(const CpuKernels& kernels, Precision precision, std::span<const float> weight, int64_t outputs,
          int64_t inputs, int64_t first, int64_t last, std::span<std::byte> packed);

}  // namespace sightline::cpu
