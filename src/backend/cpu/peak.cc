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

}  // namespace

double MeasurePeakFlops(Isa isa, Precision precision, int threads) {
  SIGHTLINE_CHECK(cpu::IsAvailable(isa));
  constexpr int64_t kRounds = 400'000;  // about a millisecond
  const auto spin = SpinOf(cpu::KernelsFor(isa), precision);
  ThreadTeam team(threads);
  return BestRate(team, [&](int64_t) { return static_cast<double>(spin(kRounds)); });
}

double MeasureReadRate(Isa isa, int threads) {
  SIGHTLINE_CHECK(cpu::IsAvailable(isa));
  // Much more than the last cache holds, from one end to the other: of less, a good part would come from that cache. In
  // large pages, as weights lie.
  const auto cache_bytes = static_cast<size_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  ThreadTeam team(threads);
  cpu::MemoryPool pool;
  const auto block = pool.Take(std::clamp(4 * cache_bytes, size_t{192} << 20, size_t{2} << 30));
  const std::span memory(block->data, block->bytes);
  std::ranges::fill(memory, std::byte{1});
  const size_t share = memory.size() / static_cast<size_t>(team.size()) / cpu::kReadBytes * cpu::kReadBytes;
  const auto read = cpu::KernelsFor(isa).read;
  return BestRate(team, [&](int64_t task) {
    const auto part = memory.subspan(static_cast<size_t>(task) * share, share);
    read(part.data(), static_cast<int64_t>(part.size()));
    return static_cast<double>(part.size());
  });
}

}  // namespace sightline
