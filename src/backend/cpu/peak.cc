#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "backend/cpu/isa.h"
#include "backend/cpu/memory_pool.h"

namespace sightline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kDuration = std::chrono::milliseconds(200);

// Most work a second that the members of a team reach together. The best of several runs: a neighbour on the machine
// slows most. work() returns the amount it did.
double BestRate(ThreadTeam& team, FunctionRef<double(int64_t task)> work) {
  double best = 0;
  std::vector<double> amounts(static_cast<size_t>(team.size()));
  for (const auto end = Clock::now() + kDuration; Clock::now() < end;) {
    const auto start = Clock::now();
    team.Run(team.size(), [&](int64_t task, int) { amounts[static_cast<size_t>(task)] = work(task); });
    const std::chrono::duration<double> seconds = Clock::now() - start;
    double sum = 0;
    for (const double amount : amounts) sum += amount;
    best = std::max(best, sum / seconds.count());
  }
  return best;
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

// Reads every cache line. The hint 2 KB ahead made this the fastest of many such loops (without one, other distances
// and caches, several lines or streams at a time, wider vectors) on a processor of 2023.
uint64_t SumOf(std::span<const uint64_t> numbers) {
  uint64_t sums[8] = {};
  for (size_t i = 0; i + 8 <= numbers.size(); i += 8) {
    __builtin_prefetch(numbers.data() + i + 256, 0, 2);
    for (size_t j = 0; j < 8; ++j) sums[j] += numbers[i + j];
  }
  uint64_t total = 0;
  for (const uint64_t sum : sums) total += sum;
  return total;
}

}  // namespace

double MeasurePeakFlops(Isa isa, Precision precision, int threads) {
  SIGHTLINE_CHECK(cpu::IsAvailable(isa));
  constexpr int64_t kRounds = 400'000;  // about a millisecond
  const auto spin = SpinOf(cpu::KernelsFor(isa), precision);
  ThreadTeam team(threads);
  return BestRate(team, [&](int64_t) { return static_cast<double>(spin(kRounds)); });
}

double MeasureReadRate(int threads) {
  // Much more than the last cache holds, from one end to the other: of less, a good part would come from that cache. In
  // large pages, as weights lie.
  const auto cache_bytes = static_cast<size_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  ThreadTeam team(threads);
  cpu::MemoryPool pool;
  const auto block = pool.Take(std::clamp(4 * cache_bytes, size_t{192} << 20, size_t{2} << 30));
  const std::span memory(reinterpret_cast<uint64_t*>(block->data), block->bytes / sizeof(uint64_t));
  std::ranges::fill(memory, 1);
  const size_t share = memory.size() / static_cast<size_t>(team.size()) / 8 * 8;
  return BestRate(team, [&](int64_t task) {
    const auto numbers = memory.subspan(static_cast<size_t>(task) * share, share);
    SIGHTLINE_CHECK(SumOf(numbers) == numbers.size());
    return static_cast<double>(numbers.size_bytes());
  });
}

}  // namespace sightline
