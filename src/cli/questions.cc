#include "cli/questions.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>

#include "cli/terminal.h"

namespace sightline {
namespace {

// The terminal without echo, for as long as it lives.
class Silence {
 public:
  explicit Silence(bool wanted) : silent_(wanted && ::tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!silent_) return;
    termios silent = before_;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &silent);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
  ~Silence() {
    if (silent_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

 private:
  termios before_{};
  bool silent_;
};

// A descriptor that can be read from once a token was asked to stop.
class StopDescriptor {
 public:
  explicit StopDescriptor(const std::stop_token& stop) : descriptor_(::eventfd(0, EFD_CLOEXEC)) {
    told_.emplace(stop, Tell{descriptor_});
  }
  StopDescriptor(const StopDescriptor&) = delete;
  StopDescriptor& operator=(const StopDescriptor&) = delete;
  ~StopDescriptor() {
    told_.reset();  // before its descriptor is another's
    ::close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  struct Tell {
    int descriptor;
    void operator()() const { ::eventfd_write(descriptor, 1); }
  };
  int descriptor_;
  std::optional<std::stop_callback<Tell>> told_;
};

// A byte at a time: what stands behind the line is the next reader's.
Result<std::string> ReadLine(const std::stop_token& stop) {
  const StopDescriptor stopped(stop);
  std::string line;
  while (true) {
    pollfd waiting[] = {{STDIN_FILENO, POLLIN, 0}, {stopped.get(), POLLIN, 0}};
    if (::poll(waiting, std::size(waiting), -1) < 0) {
      if (errno == EINTR) continue;
      return tl::make_unexpected(ErrnoError("read", "standard input", errno));
    }
    if (waiting[1].revents != 0) return Fail(Code::kCancelled, "interrupted");
    char c = 0;
    const ssize_t count = ::read(STDIN_FILENO, &c, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return tl::make_unexpected(ErrnoError("read", "standard input", errno));
    if (count == 0 || c == '\n') return line;
    line += c;
  }
}

}  // namespace

bool SomebodyCanBeAsked() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1; }

Result<std::string> Ask(std::string_view question, Echo echo, const std::stop_token& stop) {
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  const bool hidden = terminal && echo == Echo::kHidden;
  if (terminal) std::fputs(OneLine(question).c_str(), stderr);
  Result<std::string> line = [&] {
    const Silence silence(hidden);
    return ReadLine(stop);
  }();
  if (terminal && (hidden || !line)) std::fputs("\n", stderr);  // the line end was not shown
  return line;
}

Result<bool> AskYesNo(std::string_view question, const std::stop_token& stop) {
  const Result<std::string> answer = Ask(fmt::format("{} [y/N] ", question), Echo::kShown, stop);
  if (!answer) return tl::make_unexpected(answer.error());
  return *answer == "y" || *answer == "Y" || *answer == "yes";
}

}  // namespace sightline
