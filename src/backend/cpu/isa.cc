#include "backend/cpu/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

namespace sightline {
namespace {

// Tiles are switched on for a process when it asks: https://docs.kernel.org/arch/x86/xstate.html
bool AskForTiles() {
  constexpr unsigned kBF16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;  // Intel's SDM, CPUID.(7,0).EDX
  constexpr int kRequestPermission = 0x1023, kTileData = 18;                // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  return (d & kBF16) != 0 && (d & kTile) != 0 && (d & kInt8) != 0 &&
         ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

namespace cpu {

// The compiler's run-time library asks both the processor and, for the wide registers, the operating system.
bool IsAvailable(Isa isa) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool avx512_bf16 = avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
  switch (isa) {
    case Isa::kGeneric:
      return true;
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvx512:
      return avx512;
    case Isa::kAvx512Bf16:
      return avx512_bf16;
    case Isa::kAmx:
      static const bool tiles = AskForTiles();
      return avx512_bf16 && tiles;
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
    case Isa::kAmx:
      return AmxKernels();
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
    case Isa::kAmx:
      return "amx";
  }
  return "unknown";
}

Result<Isa> ParseIsa(std::string_view name) {
  for (const Isa isa : kAllIsas) {
    if (name == NameOf(isa)) return isa;
  }
  return Fail(Code::kUsage,
              "instruction set is '" + std::string(name) + "', expected generic, avx2, avx512, avx512_bf16 or amx");
}

Result<Isa> DetectIsa() {
  Isa strongest = Isa::kGeneric;
  for (const Isa isa : kAllIsas) {
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
