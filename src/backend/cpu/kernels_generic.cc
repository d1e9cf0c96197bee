// Compiled for any x86-64.
#include "backend/cpu/kernels.inl.h"
#include "backend/cpu/vector_generic.inl.h"

namespace sightline::cpu {

const CpuKernels& GenericKernels() {
  static constexpr CpuKernels kKernels = MakeKernels<Generic>(kWideningKernels<Generic>);
  return kKernels;
}

}  // namespace sightline::cpu
