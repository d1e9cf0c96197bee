#include "package/git.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace sightline {
namespace {

// A listing of the largest repositories has some megabytes.
constexpr size_t kMostOutput = 256u << 20;

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    std::array<int, 2> ends{-1, -1};
    if (pipe2(ends.data(), O_CLOEXEC) == 0) {
      read = ends[0];
      write = ends[1];
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    CloseWrite();
    if (read >= 0) close(read);
  }
  void CloseWrite() {
    if (write >= 0) close(write);
    write = -1;
  }
};

// Reads both pipes until both are at their end, so that neither can fill up and stop the child.
bool Drain(int output, int complaint, GitAnswer& answer) {
  std::array<pollfd, 2> waiting{pollfd{output, POLLIN, 0}, pollfd{complaint, POLLIN, 0}};
  std::array<char, 65'536> buffer;
  while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
    if (poll(waiting.data(), waiting.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    for (pollfd& end : waiting) {
      if (end.fd < 0 || end.revents == 0) continue;
      const ssize_t count = read(end.fd, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        end.fd = -1;
        continue;
      }
      std::string& text = &end == &waiting[0] ? answer.output : answer.complaint;
      if (text.size() + static_cast<size_t>(count) > kMostOutput) return false;
      text.append(buffer.data(), static_cast<size_t>(count));
    }
  }
  return true;
}

}  // namespace

Result<GitAnswer> RunGit(const std::vector<std::string>& arguments) {
  // env changes the child's environment without touching ours, which other threads read.
  std::vector<std::string> words = {"env", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C", "git"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  Pipe output, complaint;
  const pid_t child = output.read < 0 || complaint.read < 0 ? -1 : fork();
  if (child < 0) return Fail(Code::kInternal, "git could not be started: the system gives no more processes");
  if (child == 0) {
    const int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    dup2(output.write, STDOUT_FILENO);
    dup2(complaint.write, STDERR_FILENO);
    execvp(pointers[0], pointers.data());
    _exit(127);
  }
  output.CloseWrite();
  complaint.CloseWrite();
  GitAnswer answer;
  const bool whole = Drain(output.read, complaint.read, answer);
  if (!whole) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!whole) return Fail(Code::kInternal, "git says more than can be kept");
  answer.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return answer;
}

std::optional<std::string> AskGit(const std::filesystem::path& folder, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"-C", folder.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  auto answer = RunGit(words);
  if (!answer || answer->status != 0) return std::nullopt;
  while (answer->output.ends_with('\n')) answer->output.pop_back();
  if (answer->output.empty()) return std::nullopt;
  return answer->output;
}

std::vector<std::string> SplitLines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string WithoutCredentials(std::string address) {
  const size_t scheme = address.find("://");
  if (scheme == std::string::npos) return address;
  const size_t host = scheme + 3;
  const size_t at = address.find('@', host);
  if (at != std::string::npos && at < address.find('/', host)) address.erase(host, at + 1 - host);
  return address;
}

}  // namespace sightline
