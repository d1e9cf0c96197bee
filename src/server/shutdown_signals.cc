#include "server/shutdown_signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdint>

#include "base/base.h"

namespace sightline {

ShutdownSignals::ShutdownSignals() {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGINT);
  sigaddset(&mask, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &mask, &old_mask_);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &old_pipe_);
  signals_ = signalfd(-1, &mask, SFD_CLOEXEC);
  end_ = eventfd(0, EFD_CLOEXEC);
  SIGHTLINE_CHECK(signals_ >= 0 && end_ >= 0);
  receiver_ = std::thread([this] { Receive(); });
}

ShutdownSignals::~ShutdownSignals() {
  const uint64_t one = 1;
  SIGHTLINE_CHECK(write(end_, &one, sizeof(one)) == sizeof(one));
  receiver_.join();
  close(signals_);
  close(end_);
  sigaction(SIGPIPE, &old_pipe_, nullptr);
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

int ShutdownSignals::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return signal_ != 0 || woken_; });
  return signal_;
}

void ShutdownSignals::Wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

void ShutdownSignals::Receive() {
  while (true) {
    pollfd sources[] = {{signals_, POLLIN, 0}, {end_, POLLIN, 0}};
    poll(sources, 2, -1);
    if (sources[1].revents != 0) return;
    signalfd_siginfo info{};
    if (sources[0].revents == 0 || read(signals_, &info, sizeof(info)) != sizeof(info)) continue;
    const std::lock_guard lock(mutex_);
    if (signal_ != 0) _exit(128 + static_cast<int>(info.ssi_signo));
    signal_ = static_cast<int>(info.ssi_signo);
    changed_.notify_all();
  }
}

}  // namespace sightline
