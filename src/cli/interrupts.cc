#include "cli/interrupts.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "cli/persona.h"

namespace sightline {
namespace {

int pipe_ends[2] = {-1, -1};
struct sigaction interrupt_before, terminate_before;
volatile std::sig_atomic_t last_signal = SIGINT;

// A handler may do next to nothing: it wakes a thread.
void OnSignal(int signal) {
  last_signal = signal;
  [[maybe_unused]] const ssize_t told = ::write(pipe_ends[1], "s", 1);
}

}  // namespace

int InterruptedExit() { return 128 + (CurrentPersona() == Persona::kTtModel ? SIGINT : last_signal); }

Interrupts::Interrupts() {
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) return;  // then a signal ends the program, as it would without us
  waiting_ = std::thread([this] {
    char what = 0;
    if (::read(pipe_ends[0], &what, 1) == 1 && what == 's') source_.request_stop();
  });
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  ::sigaction(SIGINT, &action, &interrupt_before);
  ::sigaction(SIGTERM, &action, &terminate_before);
}

Interrupts::~Interrupts() {
  if (!waiting_.joinable()) return;
  ::sigaction(SIGINT, &interrupt_before, nullptr);
  ::sigaction(SIGTERM, &terminate_before, nullptr);
  [[maybe_unused]] const ssize_t told = ::write(pipe_ends[1], "e", 1);
  waiting_.join();
  for (int& end : pipe_ends) {
    ::close(end);
    end = -1;
  }
}

}  // namespace sightline
