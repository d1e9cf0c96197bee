#include "launch/detached_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

extern char** environ;

namespace sightline {
namespace {

// Both ends are closed when it goes.
struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    Close(0);
    Close(1);
  }
  void Close(int end) {
    if (ends[end] >= 0) ::close(ends[end]);
    ends[end] = -1;
  }
};

// What the child needs, made before it exists: between fork and exec nothing may allocate.
struct Prepared {
  const char* program = nullptr;
  std::vector<char*> arguments, environment;
  int log = -1, null = -1;
};

bool IsHidden(std::string_view entry, const std::vector<std::string>& hidden) {
  for (const std::string& name : hidden) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') return true;
  }
  return false;
}

Prepared Prepare(const DetachedCommand& command) {
  Prepared prepared;
  prepared.program = command.program.c_str();
  for (const std::string& word : command.arguments) prepared.arguments.push_back(const_cast<char*>(word.c_str()));
  prepared.arguments.push_back(nullptr);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!IsHidden(*entry, command.hidden_variables)) prepared.environment.push_back(*entry);
  }
  prepared.environment.push_back(nullptr);
  return prepared;
}

// In the child. Waits for the word to go on, then becomes the program; an errno goes up `failure` when it cannot.
[[noreturn]] void Become(const Prepared& prepared, Pipe& gate, Pipe& failure) {
  gate.Close(1);
  failure.Close(0);
  char go = 0;
  if (::read(gate.ends[0], &go, 1) != 1) ::_exit(1);
  ::setsid();
  ::dup2(prepared.null, 0);
  ::dup2(prepared.log, 1);
  ::dup2(prepared.log, 2);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  ::signal(SIGPIPE, SIG_DFL);
  ::execve(prepared.program, prepared.arguments.data(), prepared.environment.data());
  const int cause = errno;
  [[maybe_unused]] const ssize_t told = ::write(failure.ends[1], &cause, sizeof cause);
  ::_exit(127);
}

Result<ProcessIdentity> LetGo(pid_t child, Pipe& gate, Pipe& failure, const DetachedCommand& command,
                              const std::function<Status(const ProcessIdentity&)>& announce) {
  gate.Close(0);
  failure.Close(1);
  const auto identity = IdentifyProcess(child);
  Status announced = identity ? announce(*identity) : Fail(Code::kInternal, "the process that was started is gone");
  if (!announced) {
    gate.Close(1);
    ::waitpid(child, nullptr, 0);
    return tl::make_unexpected(announced.error());
  }
  [[maybe_unused]] const ssize_t told = ::write(gate.ends[1], "g", 1);
  int cause = 0;
  if (::read(failure.ends[0], &cause, sizeof cause) == sizeof cause) {
    ::waitpid(child, nullptr, 0);
    return tl::make_unexpected(ErrnoError("start", command.program, cause));
  }
  return *identity;
}

}  // namespace

Result<ProcessIdentity> StartDetached(const DetachedCommand& command,
                                      const std::function<Status(const ProcessIdentity&)>& announce) {
  Prepared prepared = Prepare(command);
  Pipe gate, failure, files;
  if (::pipe2(gate.ends, O_CLOEXEC) != 0 || ::pipe2(failure.ends, O_CLOEXEC) != 0) {
    return tl::make_unexpected(ErrnoError("open", "a pipe", errno));
  }
  files.ends[0] = prepared.null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  files.ends[1] = prepared.log = ::open(command.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (prepared.log < 0) return tl::make_unexpected(ErrnoError("write", command.log, errno));
  if (prepared.null < 0) return tl::make_unexpected(ErrnoError("read", "/dev/null", errno));
  const pid_t child = ::fork();
  if (child < 0) return tl::make_unexpected(ErrnoError("start", command.program, errno));
  if (child == 0) Become(prepared, gate, failure);
  return LetGo(child, gate, failure, command, announce);
}

std::optional<int> ReapIfEnded(pid_t pid) {
  int status = 0;
  if (::waitpid(pid, &status, WNOHANG) != pid) return std::nullopt;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace sightline
