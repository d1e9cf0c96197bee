// Private: weights to panels (panels.inl.h) and back.
#pragma once

#include <span>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/kernels.h"

namespace sightline::cpu {

std::string PackedLayout(const CpuKernels& kernels, Precision precision);
size_t PackedBytes(const CpuKernels& kernels, Precision precision, int64_t outputs, int64_t inputs);
// weight is [outputs, inputs], row-major. Padding is zero.
void Pack(const CpuKernels& kernels, Precision precision, std::span<const float> weight, int64_t outputs,
          int64_t inputs, std::span<std::byte> packed);

}  // namespace sightline::cpu
