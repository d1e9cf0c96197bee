#include <chrono>
#include <system_error>
#include <thread>

#include "base/base.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sightline {
namespace {

// Long enough to bridge the gap between two layers, short enough to cost a neighbour nothing.
constexpr std::chrono::microseconds kSpin{50};
// Two cache lines, because processors fetch them in pairs.
constexpr size_t kApart = 128;

#if defined(__x86_64__)
void Pause() { _mm_pause(); }

// Denormal numbers count as zero while this lives: they are a hundred times slower, and no result needs them.
class FlushToZero {
 public:
  FlushToZero() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | kFlushToZero | kDenormalsAreZero); }
  ~FlushToZero() { _mm_setcsr(saved_); }
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 0x8000;
  static constexpr unsigned kDenormalsAreZero = 0x0040;
  unsigned saved_;
};
#else
void Pause() {}
class FlushToZero {
 public:
  FlushToZero() {}
  ~FlushToZero() {}
};
#endif

// Returns when `word` is no longer `old`: spins for a moment, then sleeps.
void WaitForChange(const std::atomic<uint32_t>& word, uint32_t old) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (word.load(std::memory_order_acquire) != old) return;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  word.wait(old, std::memory_order_acquire);
}

}  // namespace

// How a Run is shared out, and why a member that wakes late can do no harm:
//   - `unclaimed` is the only way to get a task: fetch_sub yields each value from `tasks` down to 1 once; who gets less
//     has nothing. A claim therefore always belongs to the Run that stored the counter last.
//   - `body` and `tasks` are read after a claim only. The Run they belong to cannot return, and so no later Run can
//     change them, before the claimed task is counted in `finished`.
//   - A late fetch_sub either precedes the next Run's store, which then overwrites it, or is an ordinary claim.
struct ThreadTeam::State {
  alignas(kApart) std::atomic<int64_t> unclaimed{0};
  alignas(kApart) std::atomic<int64_t> unfinished{0};
  alignas(kApart) std::atomic<uint32_t> started{0};  // number of Runs begun; members sleep on it
  std::atomic<bool> stopping{false};
  alignas(kApart) std::atomic<uint32_t> ended{0};  // number of Runs done; the caller sleeps on it
  std::atomic<bool> running{false};
  alignas(kApart) int64_t tasks = 0;
  const FunctionRef<void(int64_t, int)>* body = nullptr;
  std::vector<std::thread> members;

  // Works off tasks until none is left.
  void Work(int member) {
    int64_t done = 0;
    while (true) {
      const int64_t left = unclaimed.fetch_sub(1, std::memory_order_acquire);
      if (left <= 0) break;
      (*body)(tasks - left, member);
      ++done;
    }
    if (done == 0 || unfinished.fetch_sub(done, std::memory_order_acq_rel) != done) return;
    ended.fetch_add(1, std::memory_order_acq_rel);
    ended.notify_one();
  }

  void Serve(int member) {
    const FlushToZero flush;
    uint32_t seen = 0;
    while (!stopping.load(std::memory_order_acquire)) {
      Work(member);
      WaitForChange(started, seen);
      seen = started.load(std::memory_order_acquire);
    }
  }

  void WakeMembers() {
    started.fetch_add(1);
    started.notify_all();
  }
};

ThreadTeam::ThreadTeam(int threads) : state_(std::make_unique<State>()) {
  const int wanted = threads > 0 ? threads : DefaultThreadCount();
  state_->members.reserve(static_cast<size_t>(wanted - 1));
  try {
    for (int member = 1; member < wanted; ++member) {
      state_->members.emplace_back([state = state_.get(), member] { state->Serve(member); });
    }
  } catch (const std::system_error&) {
    LogWarning("threads: the system allows " + std::to_string(size()) + ", expected " + std::to_string(wanted));
  }
}

ThreadTeam::~ThreadTeam() {
  state_->stopping.store(true, std::memory_order_release);
  state_->WakeMembers();
  for (std::thread& member : state_->members) member.join();
}

int ThreadTeam::size() const { return static_cast<int>(state_->members.size()) + 1; }

void ThreadTeam::Run(int64_t tasks, FunctionRef<void(int64_t task, int member)> body) {
  if (tasks <= 0) return;
  SIGHTLINE_CHECK(!state_->running.exchange(true, std::memory_order_acquire));
  const FlushToZero flush;
  if (tasks == 1 || state_->members.empty()) {
    for (int64_t task = 0; task < tasks; ++task) body(task, 0);
  } else {
    const uint32_t before = state_->ended.load(std::memory_order_relaxed);
    state_->body = &body;
    state_->tasks = tasks;
    state_->unfinished.store(tasks, std::memory_order_relaxed);
    state_->unclaimed.store(tasks, std::memory_order_release);
    state_->WakeMembers();
    state_->Work(0);
    WaitForChange(state_->ended, before);
  }
  state_->running.store(false, std::memory_order_release);
}

}  // namespace sightline
