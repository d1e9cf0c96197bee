#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "launch/candidates.h"
#include "launch/log_reader.h"

namespace sightline {
namespace {

constexpr int kInterrupted = 128 + 2;  // SIGINT, as shells say it

using LineCallback = std::function<void(std::string_view line)>;

// `server` is none where the log of one that has ended is shown.
int ReadNative(const std::filesystem::path& log, const std::optional<NativeServer>& server, const LogRequest& request,
               const LineCallback& line, const std::stop_token& stop) {
  LogReader reader(log);
  std::vector<std::string> lines = LinesSince(reader.Read(), request.since);
  if (request.tail && std::cmp_less(*request.tail, lines.size())) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(*request.tail));
  }
  for (;;) {
    for (const std::string& text : lines) line(text);
    const bool goes_on = request.follow && server;
    if (!goes_on || !IsAlive(server->process)) break;
    if (stop.stop_requested()) return kInterrupted;
    constexpr std::chrono::milliseconds kBetweenLooks{100};
    std::this_thread::sleep_for(kBetweenLooks);
    lines = reader.Read();
  }
  for (const std::string& text : reader.Read()) line(text);
  if (const std::string rest = reader.Rest(); !rest.empty()) line(rest);
  return 0;
}

StoreResult<int> ReadContainer(const ContainerEngine& engine, const std::string& name, const LogRequest& request,
                               const LineCallback& line, std::stop_token stop) {
  ProcessCommand command = engine.LogsCommand(name, request.follow);
  std::vector<std::string> options;
  if (request.tail) options = {"--tail", std::to_string(*request.tail)};
  if (!request.since.empty()) options.insert(options.end(), {"--since", request.since});
  command.arguments.insert(command.arguments.end() - 1, options.begin(), options.end());  // before the name
  ProcessLimits limits;
  limits.stop = std::move(stop);
  SIGHTLINE_ASSIGN_OR_RETURN(const StreamResult end, StreamProcess(command, limits, [&line](std::string_view text) {
                               line(text);
                               return true;
                             }));
  return end.end == StreamEnd::kCancelled ? kInterrupted : end.exit_code;
}

// The first that runs, else the first that has ended and can still be read.
StoreResult<std::optional<std::string>> ContainerToRead(const ContainerEngine& engine, const FoundPackage& found,
                                                        const std::optional<std::string>& profile) {
  std::optional<std::string> ended;
  SIGHTLINE_ASSIGN_OR_RETURN(const auto names, CandidateContainers(found.package, profile));
  for (const std::string& name : names) {
    SIGHTLINE_ASSIGN_OR_RETURN(const bool running, engine.IsRunning(name));
    if (running) return std::optional(name);
    SIGHTLINE_ASSIGN_OR_RETURN(const bool exists, engine.Exists(name));
    if (exists && !ended) ended = name;
  }
  return ended;
}

StoreError NothingRuns(const std::string& target, const std::string& program) {
  return StoreError(Code::kNotFound, {"nothing running",
                                      fmt::format("nothing of {} is running, so there is no log to show", target),
                                      {},
                                      {fmt::format("{} serve {}", program, target)}});
}

}  // namespace

StoreResult<int> Launcher::ReadLogs(const LogRequest& wanted, const LineCallback& line, std::stop_token stop) {
  LogRequest request = wanted;
  if (!request.since.empty()) {
    SIGHTLINE_ASSIGN_OR_RETURN(request.since, LogTimeSince(request.since, std::chrono::system_clock::now()));
  }
  const std::string& program = state_->settings.store.program;
  const auto found = FindInstalled(state_->store, request.target);
  const std::string name = NativeName(request.target, found);
  const auto server = state_->natives.Find(name);
  if (server && WantsNative(request.profile)) return ReadNative(server->log, server, request, line, stop);
  if (!found) return tl::make_unexpected(found.error());
  if (WantsContainer(request.profile)) {
    if (const auto engine = state_->store.Engine()) {
      const auto container = ContainerToRead(*engine, *found, request.profile);
      if (!container && !found->package.native) return tl::make_unexpected(container.error());
      if (container && *container) return ReadContainer(*engine, **container, request, line, std::move(stop));
    }
  }
  std::error_code ignored;
  const std::filesystem::path log = state_->natives.LogOf(name);
  if (WantsNative(request.profile) && std::filesystem::exists(log, ignored)) {
    return ReadNative(log, std::nullopt, request, line, stop);
  }
  return tl::make_unexpected(NothingRuns(request.target, program));
}

}  // namespace sightline
