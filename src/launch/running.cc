#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "launch/candidates.h"

namespace sightline {
namespace {

constexpr std::string_view kProfileLabel = "org.tenstorrent.tt-model.profile";
constexpr std::string_view kRepoLabel = "org.tenstorrent.tt-model.repo";
constexpr std::string_view kPortLabel = "tt.model.port";
constexpr std::string_view kChatLabel = "tt.model.openai_compatible";

// "3h 12m", as two units.
std::string Uptime(int64_t seconds) {
  constexpr int64_t kMinute = 60, kHour = 3600, kDay = 86'400;
  if (seconds < kMinute) return fmt::format("{}s", std::max<int64_t>(0, seconds));
  if (seconds < kHour) return fmt::format("{}m {}s", seconds / kMinute, seconds % kMinute);
  if (seconds < kDay) return fmt::format("{}h {}m", seconds / kHour, seconds % kHour / kMinute);
  return fmt::format("{}d {}h", seconds / kDay, seconds % kDay / kHour);
}

int64_t SecondsSince(int64_t started) {
  const int64_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return std::max<int64_t>(0, now - started);
}

// The port on this machine in "0.0.0.0:20000->20000/tcp, ...".
int PublishedPort(std::string_view ports) {
  const size_t arrow = ports.find("->");
  const size_t colon = arrow == std::string_view::npos ? arrow : ports.rfind(':', arrow);
  int port = 0;
  if (colon != std::string_view::npos) std::from_chars(ports.data() + colon + 1, ports.data() + arrow, port);
  return port;
}

// Whether a native server is ready: it answers before it is.
std::string NativeStatus(int port) {
  HttpCall call;
  call.url = fmt::format("http://127.0.0.1:{}/health", port);
  call.timeout = std::chrono::seconds(1);
  HttpClientOptions options;
  options.connect_timeout = call.timeout;
  const auto answer = HttpClient(options).Send(call);
  if (!answer || answer->status != 200) return "running";
  const auto health = ParseJson(answer->body, "health");
  const Value* status = health ? health->Find("status") : nullptr;
  const std::string* text = status == nullptr ? nullptr : status->AsText();
  if (text == nullptr) return "running";
  return *text == "ok" ? "ready" : *text;
}

RunningPackage Describe(const NativeServer& server) {
  RunningPackage row;
  row.mode = RunMode::kNative;
  row.name = server.name;
  row.target = server.target;
  row.profile = kNativeProfile;
  row.port = server.port;
  row.status = NativeStatus(server.port);
  row.chat = false;
  row.log = server.log;
  row.pid = server.process.pid;
  row.uptime_seconds = SecondsSince(server.started);
  row.uptime = Uptime(*row.uptime_seconds);
  return row;
}

std::string LabelOf(const ContainerState& container, std::string_view label) {
  const auto found = container.labels.find(std::string(label));
  return found == container.labels.end() ? "" : found->second;
}

RunningPackage Describe(const ContainerRow& listed, const ContainerState& container) {
  RunningPackage row;
  row.name = listed.name;
  row.image = listed.image;
  row.target = LabelOf(container, kRepoLabel);
  if (row.target.empty()) row.target = LabelOf(container, kPackageLabel);
  row.profile = LabelOf(container, kProfileLabel);
  row.port = PublishedPort(listed.ports);
  const std::string port = LabelOf(container, kPortLabel);
  if (row.port == 0) std::from_chars(port.data(), port.data() + port.size(), row.port);
  if (const std::string chat = LabelOf(container, kChatLabel); !chat.empty()) row.chat = chat == "true";
  row.status = container.running ? "running" : "exited";
  if (container.running && container.started) row.uptime_seconds = SecondsSince(*container.started);
  constexpr std::string_view kUp = "Up ";
  row.uptime = listed.status.starts_with(kUp) ? listed.status.substr(kUp.size()) : listed.status;
  return row;
}

Result<std::vector<RunningPackage>> Containers(const ContainerEngine& engine, bool all) {
  std::vector<RunningPackage> rows;
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<ContainerRow> listed, engine.List(std::string(kPackageLabel), all));
  for (const ContainerRow& container : listed) {
    SIGHTLINE_ASSIGN_OR_RETURN(const auto state, engine.Inspect(container.name));
    if (state) rows.push_back(Describe(container, *state));  // else it has gone meanwhile
  }
  return rows;
}

// By whose tt-smi chips are reset; empty where none is held.
std::string ResetImage(const LocalPackage& package) {
  return NeedsDevices(package.manifest) ? ImageReference(package.manifest, package.entry) : "";
}

// Where the engine does not answer: whether something of it may run there nevertheless.
bool MayRunInContainer(const LocalPackage& package) {
  return !package.native || (package.entry && package.entry->mode == RunMode::kContainer);
}

std::string_view Describe(const StopReport& report) {
  switch (report.reset) {
    case ChipReset::kRan:
      return "killed, mesh reset ran";
    case ChipReset::kFailed:
      return "killed, mesh reset did NOT complete";
    case ChipReset::kSkipped:
      return "killed, mesh reset skipped: another container holds the chips";
    case ChipReset::kNotNeeded:
      break;
  }
  return report.clean ? "clean shutdown" : "killed";
}

// Whether the chips of a container that has to be killed are to be reset.
bool HoldsChips(const ContainerState& container) { return !ClaimedChips({container}, /*inventory=*/{0}).empty(); }

// Stops one thing after the other, and goes on where one cannot be stopped.
class Stopping {
 public:
  Stopping(std::chrono::seconds grace, Reporter& reporter) : grace_(grace), reporter_(reporter) {}

  void Stop(const NativeServers& natives, const NativeServer& server) {
    Step step(reporter_, "stop-" + server.name, "stopping " + server.name);
    Keep(step, server.name, RunMode::kNative, natives.Stop(server, grace_));
  }
  // Without `reset_image` no chip is reset.
  void Stop(const ContainerEngine& engine, const std::string& name, const std::string& reset_image) {
    Step step(reporter_, "stop-" + name, "stopping " + name);
    Keep(step, name, RunMode::kContainer, StopContainer(engine, name, reset_image, grace_));
  }
  void StopEveryContainer(const ContainerEngine& engine);
  void AddFailure(StoreError error) { outcome_.failures.push_back(std::move(error)); }

  bool any() const { return !outcome_.stopped.empty() || !outcome_.failures.empty(); }
  StopOutcome Take() { return std::move(outcome_); }

 private:
  void Keep(Step& step, const std::string& name, RunMode mode, const Result<StopReport>& report) {
    if (!report) return AddFailure(StoreError(Error{report.error().code, name + ": " + report.error().message, {}}));
    step.DoneAs("stopped " + name, std::string(Describe(*report)));
    if (report->reset != ChipReset::kNotNeeded) {
      reporter_.OnWarning(
          "a server that had to be killed may leave the card unusable: only a reboot of the host is "
          "certain to bring it back");
    }
    outcome_.stopped.push_back({name, mode, *report});
  }

  std::chrono::seconds grace_;
  Reporter& reporter_;
  StopOutcome outcome_;
};

void Stopping::StopEveryContainer(const ContainerEngine& engine) {
  const auto listed = engine.List(std::string(kPackageLabel), /*all=*/false);
  if (!listed) return AddFailure(StoreError(listed.error()));
  for (const ContainerRow& row : *listed) {
    const auto state = engine.Inspect(row.name);
    if (!state) {
      AddFailure(StoreError(state.error()));
    } else if (*state) {  // else it has gone meanwhile
      Stop(engine, row.name, HoldsChips(**state) ? row.image : "");
    }
  }
}

}  // namespace

Result<std::vector<RunningPackage>> Launcher::Running(bool all, Reporter* reporter) {
  std::vector<RunningPackage> rows;
  for (const NativeServer& server : state_->natives.List()) rows.push_back(Describe(server));
  const auto engine = state_->store.Engine();
  if (!engine) return rows;  // without an engine there are no containers
  const auto containers = Containers(*engine, all);
  if (!containers) {
    OrSilent(reporter).OnNote(fmt::format("containers are not listed: {}", containers.error().message));
    return rows;
  }
  rows.insert(rows.end(), containers->begin(), containers->end());
  return rows;
}

StoreResult<StopOutcome> Launcher::Stop(const StopRequest& request, Reporter* reporter) {
  Stopping stopping(request.grace, OrSilent(reporter));
  // Native servers come first: an engine whose daemon is dead may take its time to say so.
  if (request.target.empty()) {
    for (const NativeServer& server : state_->natives.List()) stopping.Stop(state_->natives, server);
    const auto engine = state_->store.Engine();
    if (engine) stopping.StopEveryContainer(*engine);  // else there are no containers
    return stopping.Take();
  }
  const auto found = FindInstalled(state_->store, request.target);
  if (WantsNative(request.profile)) {
    const auto server = state_->natives.Find(NativeName(request.target, found));
    if (server) stopping.Stop(state_->natives, *server);
  }
  if (!found && stopping.any()) return stopping.Take();
  if (!found) return tl::make_unexpected(found.error());
  if (!WantsContainer(request.profile)) return stopping.Take();
  SIGHTLINE_ASSIGN_OR_RETURN(const auto candidates, CandidateContainers(found->package, request.profile));
  const auto engine = state_->store.Engine();
  if (!engine) return stopping.Take();  // without an engine there are no containers
  for (const std::string& name : candidates) {
    const auto running = engine->IsRunning(name);
    if (running && *running) stopping.Stop(*engine, name, ResetImage(found->package));
    if (!running && MayRunInContainer(found->package)) stopping.AddFailure(StoreError(running.error()));
  }
  return stopping.Take();
}

}  // namespace sightline
