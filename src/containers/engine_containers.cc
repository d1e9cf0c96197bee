// Containers of the engine.
#include <fmt/format.h>

#include <charconv>

#include "containers/engine_calls.h"
#include "containers/engine_failure.h"
#include "containers/inspect_json.h"

namespace sightline {
namespace {

constexpr std::chrono::seconds kStopPatience{60};  // beyond the grace time, for the engine itself

}  // namespace

Result<std::vector<ContainerRow>> ContainerEngine::List(const std::string& label, bool all) const {
  std::vector<std::string> arguments{"ps"};
  if (all) arguments.emplace_back("--all");
  for (const char* word : {"--filter", "label=", "--format"}) arguments.emplace_back(word);
  arguments[arguments.size() - 2] += label;
  arguments.emplace_back("{{.Names}}\t{{.Image}}\t{{.Status}}\t{{.Ports}}");
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string said, Ask(*this, std::move(arguments), QuickLimits()));
  std::vector<ContainerRow> rows;
  for (const std::string& line : LinesOf(said)) {
    std::vector<std::string> cells = SplitAt(line, '\t');
    cells.resize(4);
    rows.push_back({cells[0], cells[1], cells[2], cells[3]});
  }
  return rows;
}

Result<std::vector<ContainerState>> ContainerEngine::InspectRunning() const {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string said, Ask(*this, {"ps", "-q"}, QuickLimits()));
  std::vector<std::string> arguments{"inspect"};
  for (std::string& id : LinesOf(said)) arguments.push_back(std::move(id));
  if (arguments.size() == 1) return std::vector<ContainerState>();
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string json, Ask(*this, arguments, QuickLimits()));
  return ParseInspect(json, WhatOf(*this, arguments));
}

Result<std::optional<ContainerState>> ContainerEngine::Inspect(const std::string& name) const {
  SIGHTLINE_ASSIGN_OR_RETURN(const auto json, AskAbout(*this, {"container", "inspect", name}));
  if (!json) return std::optional<ContainerState>();
  SIGHTLINE_ASSIGN_OR_RETURN(std::vector<ContainerState> states, ParseInspect(*json, WhatOf(*this, {"inspect"})));
  // Engines also take the beginning of an id for a container.
  if (states.size() != 1 || (states[0].name != name && states[0].id != name)) return std::optional<ContainerState>();
  return std::optional(std::move(states[0]));
}

Result<bool> ContainerEngine::Exists(const std::string& name) const {
  SIGHTLINE_ASSIGN_OR_RETURN(const auto said, AskAbout(*this, {"container", "inspect", name}));
  return said.has_value();
}

Result<bool> ContainerEngine::IsRunning(const std::string& name) const {
  SIGHTLINE_ASSIGN_OR_RETURN(const auto said, AskAbout(*this, {"inspect", "--format", "{{.State.Running}}", name}));
  return said == "true";
}

std::optional<int> ContainerEngine::ExitCode(const std::string& name) const {
  const auto said = AskAbout(*this, {"inspect", "--format", "{{.State.ExitCode}}", name});
  if (!said || !*said) return std::nullopt;
  const std::string& text = **said;
  int code = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), code);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return code;
}

Result<std::string> ContainerEngine::Run(const std::vector<std::string>& arguments, const ProcessLimits& limits) const {
  std::vector<std::string> all{"run"};
  size_t next = 0;
  if (!arguments.empty() && arguments[0] == "--detach") all.push_back(arguments[next++]);
  all.insert(all.end(), options_.run_arguments.begin(), options_.run_arguments.end());
  all.insert(all.end(), arguments.begin() + static_cast<std::ptrdiff_t>(next), arguments.end());
  return Ask(*this, std::move(all), limits);
}

Status ContainerEngine::Stop(const std::string& name, std::chrono::seconds grace) const {
  ProcessLimits limits;
  limits.timeout = grace + kStopPatience;
  const std::string seconds = std::to_string(grace.count());
  const auto stop = [&](const char* flag) { return RunProcess(Command({"stop", flag, seconds, name}), limits); };
  const bool podman = kind_ == EngineKind::kPodman;
  SIGHTLINE_ASSIGN_OR_RETURN(ProcessOutput output, stop(podman ? "--time" : "--timeout"));
  // Docker calls it --timeout only since version 28.
  if (output.exit_code != 0 && output.standard_error.find("unknown flag: --timeout") != std::string::npos) {
    SIGHTLINE_ASSIGN_OR_RETURN(output, stop("--time"));
  }
  if (output.exit_code != 0) return tl::make_unexpected(ExplainEngineFailure(WhatOf(*this, {"stop"}), output));
  return {};
}

Status ContainerEngine::Remove(const std::string& name, bool force) const {
  std::vector<std::string> arguments{"rm"};
  if (force) arguments.emplace_back("--force");
  arguments.push_back(name);
  SIGHTLINE_RETURN_IF_ERROR(Ask(*this, std::move(arguments), QuickLimits()));
  return {};
}

ProcessCommand ContainerEngine::LogsCommand(const std::string& name, bool follow) const {
  if (follow) return Command({"logs", "--follow", name});
  return Command({"logs", name});
}

}  // namespace sightline
