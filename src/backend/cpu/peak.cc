#include <algorithm>
#include <chrono>
#include <numeric>

#include "backend/cpu/isa.h"

namespace sightline {
namespace {

using Clock = std::chrono::steady_clock;

// Work a second of the members of a team together, each of which does some once. work() returns how much.
double WorkOnce(ThreadTeam& team, FunctionRef<double(int64_t task)> work) {
  std::vector<double> amounts(static_cast<size_t>(team.size()));
  const auto start = Clock::now();
  team.Run(team.size(), [&](int64_t task, int) { amounts[static_cast<size_t>(task)] = work(task); });
  const std::chrono::duration<double> seconds = Clock::now() - start;
  return std::accumulate(amounts.begin(), amounts.end(), 0.0) / seconds.count();
}

int64_t (*SpinOf(const cpu::CpuKernels& kernels, Precision precision))(int64_t) {
  switch (precision) {
    case Precision::kF32:
      return kernels.f32.spin;
    case Precision::kBF16:
      return kernels.bf16.spin;
    case Precision::kInt8:
      return kernels.int8.spin;
    case Precision::kInt8Weights:
      return kernels.int8w.spin;
    case Precision::kInt4:
      return kernels.int4.spin;
  }
  return kernels.f32.spin;
}

}  // namespace

double MeasurePeakFlops(Isa isa, Precision precision, int threads) {
  SIGHTLINE_CHECK(cpu::IsAvailable(isa));
  constexpr int64_t kRounds = 400'000;  // about a millisecond
  const auto spin = SpinOf(cpu::KernelsFor(isa), precision);
  ThreadTeam team(threads);
  // The best of several: a neighbour on the machine slows most.
  double best = 0;
  for (const auto end = Clock::now() + std::chrono::milliseconds(200); Clock::now() < end;) {
    best = std::max(best, WorkOnce(team, [&](int64_t) { return static_cast<double>(spin(kRounds)); }));
  }
  return best;
}

double MeasureReadRate(Isa isa, int threads, std::span<const std::span<const std::byte>> memories) {
  SIGHTLINE_CHECK(cpu::IsAvailable(isa));
  const auto read = cpu::KernelsFor(isa).read;
  ThreadTeam team(threads);
  return WorkOnce(team, [&](int64_t task) {
    int64_t bytes = 0;
    for (const auto& memory : memories) {
      const int64_t share = static_cast<int64_t>(memory.size()) / team.size() / cpu::kReadBytes * cpu::kReadBytes;
      read(memory.data() + task * share, share);
      bytes += share;
    }
    return static_cast<double>(bytes);
  });
}

}  // namespace sightline
