// The one thread that uses the device, and the jobs that wait for it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "base/base.h"

namespace sightline {

// First in, first out. All methods may be called from any thread; jobs run one at a time on the queue's own thread.
class DeviceQueue {
 public:
  struct Job {
    std::function<void()> run;          // on the device thread
    std::function<void(Error)> refuse;  // instead of run: when draining, or when `stop` is asked for while it waits
    std::stop_token stop;
  };

  DeviceQueue();
  ~DeviceQueue();  // drains and waits for the running job

  // A waiting job whose stop is asked for is refused at once (kCancelled), on the thread that asks.
  void Push(Job job);
  // Refuses what is queued and all that comes; the running job goes on.
  void Drain();

  bool draining() const;
  int queued() const;
  std::optional<double> running_ms() const;  // of the job on the device now

 private:
  // A job in the queue. Whoever takes it first - the device thread, Drain, or its stop token - runs or refuses it.
  class Waiting {
   public:
    explicit Waiting(Job job);
    bool taken() const { return taken_; }
    void Run();
    void Refuse(Error error);

   private:
    Job job_;
    std::atomic<bool> taken_{false};
    std::stop_callback<std::function<void()>> watch_;  // last: it may refuse the job while it is being made
  };

  void Loop();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Waiting>> jobs_;
  bool draining_ = false;
  std::optional<std::chrono::steady_clock::time_point> running_since_;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace sightline
