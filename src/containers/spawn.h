// Starting programs: posix_spawn with everything set that must not leak from us into them.
#pragma once

#include <sys/types.h>

#include <array>

#include "containers/containers.h"

namespace sightline {

// Both ends of the pipes of one child. Owns them until taken.
class SpawnPipes {
 public:
  SpawnPipes() = default;
  SpawnPipes(const SpawnPipes&) = delete;
  SpawnPipes& operator=(const SpawnPipes&) = delete;
  ~SpawnPipes();

  // Without input the child reads nothing; without errors of their own they go to standard output.
  Status Open(bool input, bool error);
  int TakeInput();  // our ends; -1 where there is none; never block
  int TakeOutput();
  int TakeError();
  int child_input() const { return input_[0]; }
  int child_output() const { return output_[1]; }
  int child_error() const { return error_[1] < 0 ? output_[1] : error_[1]; }

 private:
  std::array<int, 2> input_{-1, -1}, output_{-1, -1}, error_{-1, -1};  // the reading end, the writing end
};

// The child leads a process group of its own.
Result<pid_t> SpawnWithPipes(const ProcessCommand& command, const SpawnPipes& pipes);

// Of a status of waitpid: the exit code, or 128 + the signal.
int ExitCodeOf(int status);

}  // namespace sightline
