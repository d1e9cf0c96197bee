// Private: the kernels of an instruction set.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/kernels.h"

namespace sightline::cpu {

bool IsAvailable(Isa isa);
const CpuKernels& KernelsFor(Isa isa);

}  // namespace sightline::cpu
