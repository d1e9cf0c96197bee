// Ctrl-C and SIGTERM as a stop token, for work that ends cleanly when asked to.
#pragma once

#include <stop_token>
#include <thread>

namespace sightline {

// One at a time. The first signal asks the token to stop, a second one ends the program. The handlers of before come
// back when it goes.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::thread waiting_;
};

// The exit code of a program that was interrupted: 130, or 143 where it was by SIGTERM; of tt-model 130 in any case.
int InterruptedExit();

}  // namespace sightline
