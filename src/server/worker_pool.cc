#include "server/worker_pool.h"

#include <malloc.h>

#include <chrono>
#include <utility>

namespace sightline {
namespace {

constexpr std::chrono::seconds kQuiet{2};

}  // namespace

WorkerPool::WorkerPool(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Post(std::function<void()> task, Turn turn) {
  {
    const std::lock_guard lock(mutex_);
    (turn == Turn::kFirst ? first_ : tasks_).push_back(std::move(task));
  }
  changed_.notify_one();
}

void WorkerPool::WaitUntilIdle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return Empty() && running_ == 0; });
}

std::function<void()> WorkerPool::Take() {
  auto& from = first_.empty() ? tasks_ : first_;
  std::function<void()> task = std::move(from.front());
  from.pop_front();
  return task;
}

void WorkerPool::WaitForTask(std::unique_lock<std::mutex>& lock) {
  const auto something = [this] { return ending_ || !Empty(); };
  while (!changed_.wait_for(lock, kQuiet, something)) {
    if (trimmed_ || running_ > 0) continue;
    trimmed_ = true;
    lock.unlock();
    ::malloc_trim(0);  // pictures of a hundred megabytes leave their memory in the heap
    lock.lock();
  }
}

void WorkerPool::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    WaitForTask(lock);
    if (Empty()) return;
    std::function<void()> task = Take();
    ++running_;
    lock.unlock();
    task();
    task = nullptr;  // what it holds goes before anybody is told that it is done
    lock.lock();
    --running_;
    trimmed_ = false;
    if (Empty() && running_ == 0) idle_.notify_all();
  }
}

}  // namespace sightline
