#include <algorithm>
#include <chrono>

#include "backend/cpu/isa.h"

namespace sightline {

double MeasurePeakFlops(Isa isa, Precision precision, int threads) {
  SIGHTLINE_CHECK(cpu::IsAvailable(isa));
  using Clock = std::chrono::steady_clock;
  constexpr auto kDuration = std::chrono::milliseconds(200);
  constexpr int64_t kRounds = 400'000;  // about a millisecond
  const cpu::CpuKernels& kernels = cpu::KernelsFor(isa);
  const auto spin = precision == Precision::kF32 ? kernels.f32.spin : kernels.bf16.spin;
  ThreadTeam team(threads);
  double best = 0;
  // Short runs, and the best of them: a neighbour on the machine slows most long ones.
  for (const auto end = Clock::now() + kDuration; Clock::now() < end;) {
    std::vector<int64_t> flops(static_cast<size_t>(team.size()));
    const auto start = Clock::now();
    team.Run(team.size(), [&](int64_t task, int) { flops[static_cast<size_t>(task)] = spin(kRounds); });
    const std::chrono::duration<double> seconds = Clock::now() - start;
    int64_t sum = 0;
    for (const int64_t count : flops) sum += count;
    best = std::max(best, static_cast<double>(sum) / seconds.count());
  }
  return best;
}

}  // namespace sightline
