#include "backend/cpu/isa.h"

#include <array>
#include <cstdlib>

namespace sightline {
namespace {

constexpr std::array kWeakestFirst = {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16};

}  // namespace

namespace cpu {

// The compiler's run-time library asks both the processor and, for the wide registers, the operating system.
bool IsAvailable(Isa isa) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  switch (isa) {
    case Isa::kGeneric:
      return true;
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvx512:
      return avx512;
    case Isa::kAvx512Bf16:
      return avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
  }
  return false;
}

const CpuKernels& KernelsFor(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return GenericKernels();
    case Isa::kAvx2:
      return Avx2Kernels();
    case Isa::kAvx512:
      return Avx512Kernels();
    case Isa::kAvx512Bf16:
      return Avx512BF16Kernels();
  }
  return GenericKernels();
}

}  // namespace cpu

std::string_view NameOf(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return "generic";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
  }
  return "unknown";
}

Result<Isa> ParseIsa(std::string_view name) {
  for (const Isa isa : kWeakestFirst) {
    if (name == NameOf(isa)) return isa;
  }
  return Fail(Code::kUsage,
              "instruction set is '" + std::string(name) + "', expected generic, avx2, avx512 or avx512_bf16");
}

Result<Isa> DetectIsa() {
  Isa strongest = Isa::kGeneric;
  for (const Isa isa : kWeakestFirst) {
    if (cpu::IsAvailable(isa)) strongest = isa;
  }
  const char* forced = std::getenv("SIGHTLINE_ISA");
  if (forced == nullptr || *forced == '\0') return strongest;
  SIGHTLINE_ASSIGN_OR_RETURN(const Isa isa, ParseIsa(forced));
  if (!cpu::IsAvailable(isa)) {
    return Fail(Code::kUnsupported, "SIGHTLINE_ISA is '" + std::string(forced) +
                                        "', which this processor does not have; its strongest is " +
                                        std::string(NameOf(strongest)));
  }
  return isa;
}

}  // namespace sightline
