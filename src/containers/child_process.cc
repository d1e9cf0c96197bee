#include "containers/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "containers/spawn.h"

namespace sightline {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTick{50};    // how late a stop request or a missing end may be noticed
constexpr milliseconds kDrain{500};  // how long pipes are read that something else keeps open after the end
constexpr size_t kPieceBytes = 64 * 1024;

void Close(int* descriptor) {
  if (*descriptor >= 0) ::close(std::exchange(*descriptor, -1));
}

// Keeps SIGPIPE from this thread, so that writing to a process that went away is an error and not our end.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;
  ~NoPipeSignal() {
    const timespec at_once{};
    if (!was_pending_) {
      while (::sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
      }
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  bool was_pending_;
  sigset_t pipe_, before_;
};

}  // namespace

Result<ChildProcess> ChildProcess::Start(const ProcessCommand& command, const ProcessLimits& limits, Input input,
                                         Output output) {
  ChildProcess child(limits);
  SpawnPipes pipes;
  SIGHTLINE_RETURN_IF_ERROR(pipes.Open(input == Input::kPipe, output == Output::kSeparate));
  SIGHTLINE_ASSIGN_OR_RETURN(child.pid_, SpawnWithPipes(command, pipes));
  child.input_ = pipes.TakeInput();
  child.output_ = pipes.TakeOutput();
  child.error_ = pipes.TakeError();
  child.watch_ = static_cast<int>(::syscall(SYS_pidfd_open, child.pid_, 0));
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : limits_(other.limits_),
      started_(other.started_),
      ended_(other.ended_),
      pid_(std::exchange(other.pid_, -1)),
      watch_(std::exchange(other.watch_, -1)),
      input_(std::exchange(other.input_, -1)),
      output_(std::exchange(other.output_, -1)),
      error_(std::exchange(other.error_, -1)),
      output_text_(std::move(other.output_text_)),
      error_text_(std::move(other.error_text_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    ::kill(-pid_, SIGKILL);
    Reap();
  }
  for (int* descriptor : {&input_, &output_, &error_, &watch_}) Close(descriptor);
}

// The process stays a zombie until Reap, so that its number, which is the group's, cannot be given to another.
bool ChildProcess::HasEnded() {
  if (ended_ != Clock::time_point{} || pid_ < 0) return true;
  siginfo_t info{};
  const int result = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  if (result == 0 && info.si_pid == 0) return false;
  ended_ = Clock::now();
  return true;
}

// A process that it left behind may hold its pipes for ever.
bool ChildProcess::OutlivedByPipes() { return HasEnded() && Clock::now() > ended_ + kDrain; }

void ChildProcess::Capture(int* descriptor, std::string* text) {
  std::array<char, kPieceBytes> piece;
  const ssize_t count = ::read(*descriptor, piece.data(), piece.size());
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count <= 0) return Close(descriptor);
  const size_t room = limits_.max_output_bytes - std::min(limits_.max_output_bytes, text->size());
  text->append(piece.data(), std::min(static_cast<size_t>(count), room));
}

ChildProcess::Wake ChildProcess::Await(Wanted wanted) {
  while (true) {
    if (limits_.stop.stop_requested()) return Wake::kCancelled;
    if (limits_.timeout.count() > 0 && Clock::now() >= started_ + limits_.timeout) return Wake::kDeadline;
    if (OutlivedByPipes()) {
      Close(&output_);
      Close(&error_);
    }
    const bool ended = HasEnded();
    if (ended && output_ < 0 && error_ < 0) return Wake::kEnded;
    std::array<pollfd, 4> polled{{{output_, POLLIN, 0},
                                  {error_, POLLIN, 0},
                                  {wanted == Wanted::kInput ? input_ : -1, POLLOUT, 0},
                                  {ended ? -1 : watch_, POLLIN, 0}}};
    if (::poll(polled.data(), polled.size(), static_cast<int>(kTick.count())) <= 0) continue;
    if (polled[1].revents != 0) Capture(&error_, &error_text_);
    if (polled[0].revents != 0) {
      if (wanted == Wanted::kOutput) return Wake::kOutput;
      Capture(&output_, &output_text_);
    }
    if (polled[2].revents != 0) return Wake::kInput;
  }
}

size_t ChildProcess::Read(std::span<std::byte> bytes) {
  const ssize_t count = ::read(output_, bytes.data(), bytes.size());
  if (count > 0) return static_cast<size_t>(count);
  if (count == 0 || (errno != EINTR && errno != EAGAIN)) Close(&output_);
  return 0;
}

Result<size_t> ChildProcess::Write(std::span<const std::byte> bytes) {
  const NoPipeSignal no_signal;
  const ssize_t count = ::write(input_, bytes.data(), bytes.size());
  if (count >= 0) return static_cast<size_t>(count);
  if (errno == EINTR || errno == EAGAIN) return size_t{0};
  return Fail(Code::kUnreachable, fmt::format("the process stopped reading its input: {}", std::strerror(errno)));
}

void ChildProcess::CloseInput() { Close(&input_); }

void ChildProcess::Terminate() {
  if (pid_ < 0) return;
  ::kill(-pid_, SIGTERM);
  const auto patience = Clock::now() + limits_.grace;
  while (!HasEnded() && Clock::now() < patience) {
    // Its output is read on, or a child that prints while it ends would wait for us.
    std::array<pollfd, 3> polled{{{output_, POLLIN, 0}, {error_, POLLIN, 0}, {watch_, POLLIN, 0}}};
    ::poll(polled.data(), polled.size(), static_cast<int>(kTick.count()));
    if (polled[0].revents != 0) Capture(&output_, &output_text_);
    if (polled[1].revents != 0) Capture(&error_, &error_text_);
  }
  ::kill(-pid_, SIGKILL);  // also what the process started and left behind
}

int ChildProcess::Reap() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return ExitCodeOf(status);
}

tl::unexpected<Error> EndedEarly(ChildProcess::Wake wake, const ProcessCommand& command, const ProcessLimits& limits) {
  const std::string& program = command.arguments.front();
  const std::string verb = command.arguments.size() > 1 ? " " + command.arguments[1] : "";
  if (wake == ChildProcess::Wake::kCancelled)
    return Fail(Code::kCancelled, fmt::format("{}{}: cancelled", program, verb));
  const double seconds = static_cast<double>(limits.timeout.count()) / 1000;
  return Fail(Code::kDeadline, fmt::format("{}{}: did not finish within {:g} s", program, verb, seconds));
}

}  // namespace sightline
