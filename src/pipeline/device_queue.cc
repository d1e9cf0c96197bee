#include "pipeline/device_queue.h"

#include <algorithm>

namespace sightline {
namespace {

Error Cancelled() { return {Code::kCancelled, "gaze: the request was cancelled while it waited", ""}; }
Error Draining() { return {Code::kDraining, "the server is shutting down", ""}; }

}  // namespace

DeviceQueue::Waiting::Waiting(Job job) : job_(std::move(job)), watch_(job_.stop, [this] { Refuse(Cancelled()); }) {}

void DeviceQueue::Waiting::Run() {
  if (!taken_.exchange(true)) job_.run();
}

void DeviceQueue::Waiting::Refuse(Error error) {
  if (taken_.exchange(true)) return;
  job_.refuse(std::move(error));
  job_.run = {};  // with what it holds: the place in the queue may stay for a while
  job_.refuse = {};
}

DeviceQueue::DeviceQueue() : thread_([this] { Loop(); }) {}

DeviceQueue::~DeviceQueue() {
  Drain();
  thread_.join();
}

void DeviceQueue::Push(Job job) {
  auto waiting = std::make_unique<Waiting>(std::move(job));
  {
    const std::lock_guard lock(mutex_);
    if (!draining_) {
      jobs_.push_back(std::move(waiting));
      changed_.notify_one();
      return;
    }
  }
  waiting->Refuse(Draining());
}

void DeviceQueue::Drain() {
  std::deque<std::unique_ptr<Waiting>> refused;
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    refused.swap(jobs_);
  }
  changed_.notify_one();
  for (const auto& waiting : refused) waiting->Refuse(Draining());
}

void DeviceQueue::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return draining_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    std::unique_ptr<Waiting> waiting = std::move(jobs_.front());
    jobs_.pop_front();
    running_since_ = std::chrono::steady_clock::now();
    lock.unlock();
    waiting->Run();
    waiting.reset();  // what the job owned goes before the next one waits
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
  return static_cast<int>(std::ranges::count_if(jobs_, [](const auto& waiting) { return !waiting->taken(); }));
}

std::optional<double> DeviceQueue::running_ms() const {
  const std::lock_guard lock(mutex_);
  if (!running_since_) return std::nullopt;
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - *running_since_).count();
}

}  // namespace sightline
