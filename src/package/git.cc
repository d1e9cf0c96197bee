#include "package/git.h"

#include <algorithm>

namespace sightline {
namespace {

// A listing of the largest repositories has some megabytes.
constexpr size_t kMostOutput = 256u << 20;

}  // namespace

Result<ProcessOutput> RunGit(const std::vector<std::string>& arguments, std::stop_token stop) {
  // ssh, where it may ask at the terminal, would be stopped for doing so: git runs in a process group of its own.
  ProcessCommand command{{"git"}, {{"GIT_TERMINAL_PROMPT", "0"}, {"SSH_ASKPASS_REQUIRE", "force"}, {"LC_ALL", "C"}}};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  ProcessLimits limits;
  limits.max_output_bytes = kMostOutput;
  limits.stop = std::move(stop);
  auto output = RunProcess(command, limits);
  // What is more than that was dropped, and half a listing is none.
  if (output && output->standard_output.size() >= kMostOutput) {
    return Fail(Code::kInternal, "git says more than can be kept");
  }
  return output;
}

std::optional<std::string> AskGit(const std::filesystem::path& folder, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"-C", folder.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const auto answer = RunGit(words);
  if (!answer || answer->exit_code != 0) return std::nullopt;
  std::string text = answer->standard_output;
  while (text.ends_with('\n')) text.pop_back();
  if (text.empty()) return std::nullopt;
  return text;
}

std::string ReasonOf(const ProcessOutput& output) {
  const std::vector<std::string> lines = PartsOf(output.standard_error, '\n');
  return lines.empty() ? "" : lines.back();
}

std::vector<std::string> PartsOf(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
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
