// Which engine, and questions about it.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "containers/engine_calls.h"
#include "containers/engine_failure.h"
#include "containers/shell_words.h"

namespace sightline {
namespace {

// As execvp looks a program up.
bool IsOnPath(const std::string& program) {
  if (program.find('/') != std::string::npos) return ::access(program.c_str(), X_OK) == 0;
  const std::string path = EnvironmentVariable("PATH");
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const std::filesystem::path folder = path.substr(begin, end - begin);
    if (::access((folder / program).c_str(), X_OK) == 0) return true;
    begin = end + 1;
  }
  return false;
}

// On some machines `docker` is podman under another name.
EngineKind KindOf(const EngineOptions& options) {
  const std::string name = std::filesystem::path(options.program).filename();
  if (name.find("podman") != std::string::npos) return EngineKind::kPodman;
  const auto said = RunProcess({{options.program, "--version"}}, QuickLimits());
  const bool podman = said && said->exit_code == 0 && said->standard_output.find("podman") != std::string::npos;
  return podman ? EngineKind::kPodman : EngineKind::kDocker;
}

}  // namespace

ProcessLimits QuickLimits() {
  ProcessLimits limits;
  limits.timeout = std::chrono::seconds(60);
  return limits;
}

Result<EngineOptions> EngineOptionsFromEnvironment() {
  EngineOptions options;
  const auto words = [](const char* name) { return SplitShellWords(EnvironmentVariable(name), name); };
  SIGHTLINE_ASSIGN_OR_RETURN(const auto engine, words("SIGHTLINE_CONTAINER_ENGINE"));
  if (!engine.empty()) {
    options.program = engine.front();
    options.arguments.assign(engine.begin() + 1, engine.end());
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const auto arguments, words("SIGHTLINE_CONTAINER_ARGS"));
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  SIGHTLINE_ASSIGN_OR_RETURN(options.run_arguments, words("SIGHTLINE_CONTAINER_RUN_ARGS"));
  return options;
}

Result<ContainerEngine> ContainerEngine::Find(const EngineOptions& options) {
  EngineOptions chosen = options;
  if (!chosen.program.empty()) {
    if (IsOnPath(chosen.program)) return ContainerEngine(KindOf(chosen), chosen);
    return Fail(Code::kNotFound, fmt::format("container engine: there is no program {}; install it, or name another in "
                                             "SIGHTLINE_CONTAINER_ENGINE (docker or podman)",
                                             chosen.program));
  }
  const bool docker = IsOnPath("docker"), podman = IsOnPath("podman");
  if (!docker && !podman) {
    return Fail(Code::kNotFound,
                "container engine: neither docker nor podman is installed; install one (Docker 25 or "
                "newer), for docker also add the user to the group docker (sudo usermod -aG docker "
                "$USER)");
  }
  chosen.program = docker ? "docker" : "podman";
  const ContainerEngine engine(KindOf(chosen), chosen);
  if (!docker || !podman || engine.ServerVersion()) return engine;
  chosen.program = "podman";
  return ContainerEngine(EngineKind::kPodman, chosen);
}

ProcessCommand ContainerEngine::Command(std::vector<std::string> rest) const {
  ProcessCommand command;
  command.arguments = {options_.program};
  command.arguments.insert(command.arguments.end(), options_.arguments.begin(), options_.arguments.end());
  command.arguments.insert(command.arguments.end(), std::make_move_iterator(rest.begin()),
                           std::make_move_iterator(rest.end()));
  return command;
}

Result<std::string> Ask(const ContainerEngine& engine, std::vector<std::string> arguments,
                        const ProcessLimits& limits) {
  const std::string what = WhatOf(engine, arguments);
  SIGHTLINE_ASSIGN_OR_RETURN(ProcessOutput output, RunProcess(engine.Command(std::move(arguments)), limits));
  if (output.exit_code != 0) return tl::make_unexpected(ExplainEngineFailure(what, output));
  std::string text = std::move(output.standard_output);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

Result<std::optional<std::string>> AskAbout(const ContainerEngine& engine, std::vector<std::string> arguments) {
  const std::string what = WhatOf(engine, arguments);
  SIGHTLINE_ASSIGN_OR_RETURN(ProcessOutput output, RunProcess(engine.Command(std::move(arguments)), QuickLimits()));
  if (output.exit_code != 0 && EngineIsUnusable(output)) return tl::make_unexpected(ExplainEngineFailure(what, output));
  if (output.exit_code != 0) return std::optional<std::string>();
  std::string text = std::move(output.standard_output);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return std::optional(std::move(text));
}

std::string WhatOf(const ContainerEngine& engine, const std::vector<std::string>& arguments) {
  const std::string program = std::filesystem::path(engine.program()).filename();
  return arguments.empty() ? program : program + " " + arguments.front();
}

std::vector<std::string> SplitAt(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<std::string> LinesOf(std::string_view text) {
  std::vector<std::string> lines;
  for (std::string& line : SplitAt(text, '\n')) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

Result<std::string> ContainerEngine::ServerVersion() const {
  return Ask(*this, {"version", "--format", "{{.Server.Version}}"}, QuickLimits());
}

Result<bool> ContainerEngine::IsRootless() const {
  const bool podman = kind_ == EngineKind::kPodman;
  const std::string format = podman ? "{{.Host.Security.Rootless}}" : "{{.SecurityOptions}}";
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string said, Ask(*this, {"info", "--format", format}, QuickLimits()));
  const std::string_view sign = podman ? "true" : "name=rootless";
  return said.find(sign) != std::string::npos;
}

}  // namespace sightline
