#include "pipeline/device_queue.h"

namespace sightline {
namespace {

Error Draining() { return {Code::kDraining, "the server is shutting down", ""}; }

}  // namespace

DeviceQueue::DeviceQueue() : thread_([this] { Loop(); }) {}

DeviceQueue::~DeviceQueue() {
  Drain();
  thread_.join();
}

void DeviceQueue::Push(Job job) {
  {
    const std::lock_guard lock(mutex_);
    if (!draining_) {
      jobs_.push_back(std::move(job));
      changed_.notify_one();
      return;
    }
  }
  job.refuse(Draining());
}

void DeviceQueue::Drain() {
  std::deque<Job> refused;
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    refused.swap(jobs_);
  }
  changed_.notify_one();
  for (const Job& job : refused) job.refuse(Draining());
}

void DeviceQueue::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return draining_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    running_since_ = std::chrono::steady_clock::now();
    lock.unlock();
    job.run();
    job = {};  // what the job owned goes before the next one waits
    lock.lock();
    running_since_.reset();
  }
}

bool DeviceQueue::draining() const {
  const std::lock_guard lock(mutex_);
  return draining_;
}

int DeviceQueue::queued() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(jobs_.size());
}

std::optional<double> DeviceQueue::running_ms() const {
  const std::lock_guard lock(mutex_);
  if (!running_since_) return std::nullopt;
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - *running_since_).count();
}

}  // namespace sightline
