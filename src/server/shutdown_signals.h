// SIGINT and SIGTERM as something to wait for.
#pragma once

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

namespace sightline {

// Blocks both signals in the thread that makes it and in all that this thread starts, and receives them on a thread of
// its own. Blocked signals reach even process 1 of a container, which has no default actions. A second signal ends the
// process at once with 130 or 143. Ignores SIGPIPE. Make one before other threads start.
class ShutdownSignals {
 public:
  ShutdownSignals();
  ~ShutdownSignals();  // as it was before
  ShutdownSignals(const ShutdownSignals&) = delete;
  ShutdownSignals& operator=(const ShutdownSignals&) = delete;

  // Waits for a signal and returns its number, or 0 after Wake.
  int Wait();
  void Wake();

 private:
  void Receive();

  std::mutex mutex_;
  std::condition_variable changed_;
  int signal_ = 0;
  bool woken_ = false;
  int signals_ = -1;  // signalfd
  int end_ = -1;      // eventfd
  sigset_t old_mask_{};
  struct sigaction old_pipe_ {};
  std::thread receiver_;
};

}  // namespace sightline
