#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "backend/cpu/isa.h"

namespace sightline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kDuration = std::chrono::milliseconds(200);

// Most work a second that the members of a team reach together. Short runs, and the best of them: a neighbour on the
// machine slows most long ones. prepare() comes before each; work() returns the amount it did.
double BestRate(ThreadTeam& team, FunctionRef<void()> prepare, FunctionRef<double(int64_t task)> work) {
  double best = 0;
  std::vector<double> amounts(static_cast<size_t>(team.size()));
  for (const auto end = Clock::now() + kDuration; Clock::now() < end;) {
    prepare();
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

// Reads every cache line.
uint64_t SumOf(std::span<const uint64_t> numbers) {
  uint64_t sums[8] = {};
  for (size_t i = 0; i + 8 <= numbers.size(); i += 8) {
    __builtin_prefetch(numbers.data() + i + 1024, 0, 2);
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
  return BestRate(
      team, [] {}, [&](int64_t) { return static_cast<double>(spin(kRounds)); });
}

double MeasureReadRate(int threads) {
  // Read part by part, around and around: what a cache kept of a part is gone when its turn comes again.
  constexpr size_t kPartBytes = size_t{12} << 20, kPart = kPartBytes / sizeof(uint64_t);
  const size_t cache_bytes = static_cast<size_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  const size_t parts = std::max<size_t>(16, 2 * cache_bytes / kPartBytes);
  ThreadTeam team(threads);
  const std::vector<uint64_t> memory(parts * kPart, 1);
  const size_t share = kPart / static_cast<size_t>(team.size()) / 8 * 8;
  size_t part = 0;
  return BestRate(
      team, [&] { part = (part + 1) % parts; },
      [&](int64_t task) {
        const auto numbers = std::span(memory).subspan(part * kPart + static_cast<size_t>(task) * share, share);
        SIGHTLINE_CHECK(SumOf(numbers) == numbers.size());
        return static_cast<double>(numbers.size_bytes());
      });
}

}  // namespace sightline
