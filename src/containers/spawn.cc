#include "containers/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

extern char** environ;

namespace sightline {
namespace {

class FileActions {
 public:
  FileActions() { ::posix_spawn_file_actions_init(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

class Attributes {
 public:
  // Signals that we block or ignore are the child's to have.
  Attributes() {
    ::posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

std::vector<std::string> Environment(const ProcessCommand& command) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    bool replaced = false;
    for (const auto& [own, value] : command.environment) replaced |= own == name;
    if (!replaced) variables.emplace_back(text);
  }
  for (const auto& [name, value] : command.environment) variables.push_back(name + "=" + value);
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

Result<pid_t> Spawn(const ProcessCommand& command, FileActions* actions, const Attributes& attributes) {
  SIGHTLINE_CHECK(!command.arguments.empty());
  if (!command.folder.empty()) ::posix_spawn_file_actions_addchdir_np(actions->get(), command.folder.c_str());
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = Environment(command);
  pid_t pid = -1;
  const int problem = ::posix_spawnp(&pid, arguments.front().c_str(), actions->get(), attributes.get(),
                                     Pointers(&arguments).data(), Pointers(&environment).data());
  if (problem == 0) return pid;
  const std::string& program = arguments.front();
  if (problem == ENOENT) return Fail(Code::kNotFound, fmt::format("{}: there is no such program", program));
  const Code code = problem == EACCES ? Code::kNoPermission : Code::kInternal;
  return Fail(code, fmt::format("{}: cannot be started: {}", program, std::strerror(problem)));
}

void Close(std::array<int, 2>* ends) {
  for (int& end : *ends) {
    if (end >= 0) ::close(std::exchange(end, -1));
  }
}

Status OpenPipe(std::array<int, 2>* ends) {
  if (::pipe2(ends->data(), O_CLOEXEC) == 0) return {};
  return Fail(Code::kInternal, fmt::format("a pipe cannot be made: {}", std::strerror(errno)));
}

int Take(int* end) {
  if (*end >= 0) ::fcntl(*end, F_SETFL, ::fcntl(*end, F_GETFL) | O_NONBLOCK);
  return std::exchange(*end, -1);
}

}  // namespace

SpawnPipes::~SpawnPipes() {
  for (auto* ends : {&input_, &output_, &error_}) Close(ends);
}

Status SpawnPipes::Open(bool input, bool error) {
  if (input) SIGHTLINE_RETURN_IF_ERROR(OpenPipe(&input_));
  if (error) SIGHTLINE_RETURN_IF_ERROR(OpenPipe(&error_));
  return OpenPipe(&output_);
}

int SpawnPipes::TakeInput() { return Take(&input_[1]); }
int SpawnPipes::TakeOutput() { return Take(&output_[0]); }
int SpawnPipes::TakeError() { return Take(&error_[0]); }

Result<pid_t> SpawnWithPipes(const ProcessCommand& command, const SpawnPipes& pipes) {
  FileActions actions;
  if (pipes.child_input() < 0) {
    ::posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  } else {
    ::posix_spawn_file_actions_adddup2(actions.get(), pipes.child_input(), STDIN_FILENO);
  }
  ::posix_spawn_file_actions_adddup2(actions.get(), pipes.child_output(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(actions.get(), pipes.child_error(), STDERR_FILENO);
  ::posix_spawn_file_actions_addclosefrom_np(actions.get(), STDERR_FILENO + 1);
  return Spawn(command, &actions, Attributes());
}

int ExitCodeOf(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace sightline
