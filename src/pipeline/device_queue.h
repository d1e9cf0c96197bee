// The one thread that uses the device, and the jobs that wait for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/base.h"

namespace sightline {

// First in, first out. All methods may be called from any thread; jobs run one at a time on the queue's own thread.
class DeviceQueue {
 public:
  struct Job {
    std::function<void()> run;          // on the device thread
    std::function<void(Error)> refuse;  // instead of run, once draining
  };

  DeviceQueue();
  ~DeviceQueue();  // drains and waits for the running job

  void Push(Job job);
  // Refuses what is queued and all that comes; the running job goes on.
  void Drain();

  bool draining() const;
  int queued() const;
  std::optional<double> running_ms() const;  // of the job on the device now

 private:
  void Loop();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool draining_ = false;
  std::optional<std::chrono::steady_clock::time_point> running_since_;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace sightline
