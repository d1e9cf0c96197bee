// A child process with pipes, read and fed by one thread without ever blocking for longer than its limits allow.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "containers/containers.h"

namespace sightline {

// Not thread-safe. Ends the child's process group when destroyed before Reap.
class ChildProcess {
 public:
  enum class Input { kNothing, kPipe };
  enum class Output { kSeparate, kMerged };  // merged: errors come in standard output, in order
  // kNotFound when there is no such program. `limits.timeout` begins here.
  static Result<ChildProcess> Start(const ProcessCommand& command, const ProcessLimits& limits, Input input,
                                    Output output);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  enum class Wanted { kOutput, kInput, kEnd };
  enum class Wake {
    kOutput,  // Read gives bytes
    kInput,   // Write takes bytes, or finds that nobody reads them
    kEnded,   // the process has ended and all its output is read
    kDeadline,
    kCancelled,
  };
  // Waits. What the caller does not want is captured meanwhile: errors always, output unless it is wanted.
  Wake Await(Wanted wanted);

  size_t Read(std::span<std::byte> bytes);                 // of standard output, after kOutput; 0 at its end
  Result<size_t> Write(std::span<const std::byte> bytes);  // after kInput; kUnreachable when nobody reads
  void CloseInput();
  // SIGTERM to the group, SIGKILL after the grace time.
  void Terminate();
  int Reap();  // waits for the end; 128 + signal

  std::string& output_text() { return output_text_; }
  std::string& error_text() { return error_text_; }

 private:
  explicit ChildProcess(const ProcessLimits& limits) : limits_(limits), started_(std::chrono::steady_clock::now()) {}
  bool HasEnded();
  bool OutlivedByPipes();
  void Capture(int* descriptor, std::string* text);

  ProcessLimits limits_;
  std::chrono::steady_clock::time_point started_, ended_{};
  pid_t pid_ = -1;  // also the group; -1 once reaped
  int watch_ = -1;  // readable when the process has ended; -1 where the kernel has no such thing
  int input_ = -1, output_ = -1, error_ = -1;
  std::string output_text_, error_text_;
};

// The sentence of kDeadline and kCancelled for a command.
tl::unexpected<Error> EndedEarly(ChildProcess::Wake wake, const ProcessCommand& command, const ProcessLimits& limits);

}  // namespace sightline
