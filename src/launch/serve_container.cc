#include <fmt/format.h>
#include <fmt/ranges.h>

#include <system_error>

#include "launch/boot_report.h"
#include "launch/launcher_state.h"

namespace sightline {
namespace {

// What of the machine a container needs, before anything is fetched.
StoreStatus CheckHost(const LaunchSettings& settings, bool need_devices, Reporter& reporter) {
  Step step(reporter, "host", "checking the host");
  FailureCard card;
  std::string passed;
  std::optional<Code> code;  // of the first that did not pass
  for (const PreflightRow& row : HostPreflight(settings.store.engine, need_devices, settings.store.host_root)) {
    const std::string line = fmt::format("{}: {}", row.name, row.detail);
    if (row.passed) {
      passed += (passed.empty() ? "" : ", ") + fmt::format("{} {}", row.name, row.detail);
    } else {
      if (!code) code = row.code;
      card.detail += (card.detail.empty() ? "" : "; ") + line;
      if (!row.remedy.empty()) card.actions.push_back(row.remedy);
    }
  }
  card.cause = "this machine cannot run it in a container";
  if (code) return tl::make_unexpected(StoreError(*code, std::move(card)));
  step.DoneAs("host ready", passed);
  return {};
}

// One container, from the first check to its last line before it is ready.
class ContainerServing {
 public:
  ContainerServing(const LaunchSettings& settings, Store& store, FoundPackage& found, const ServeRequest& request,
                   Reporter& reporter, std::stop_token stop)
      : settings_(settings),
        store_(store),
        found_(found),
        request_(request),
        reporter_(reporter),
        stop_(std::move(stop)) {}

  StoreResult<ServeReport> Run() {
    SIGHTLINE_RETURN_IF_ERROR(CheckHost(settings_, NeedsDevices(found_.package.manifest), reporter_));
    SIGHTLINE_ASSIGN_OR_RETURN(const ContainerEngine engine, store_.Engine());
    SIGHTLINE_RETURN_IF_ERROR(Plan(engine));
    SIGHTLINE_RETURN_IF_ERROR(Fetch());
    SIGHTLINE_RETURN_IF_ERROR(Start(engine));
    if (request_.detach) return Report(ServeEnd::kDetached);
    return Follow(engine);
  }

 private:
  StoreStatus Plan(const ContainerEngine& engine);
  StoreStatus CheckNotRunning(const ContainerEngine& engine) const;
  StoreStatus Fetch();
  StoreStatus MakeFolders() const;
  StoreStatus Start(const ContainerEngine& engine);
  StoreStatus RunContainer(const ContainerEngine& engine);
  StoreResult<ServeReport> Follow(const ContainerEngine& engine);
  ServeReport Report(ServeEnd end) const;
  void NoteProfile() const;

  const LaunchSettings& settings_;
  Store& store_;
  FoundPackage& found_;
  const ServeRequest& request_;
  Reporter& reporter_;
  const std::stop_token stop_;
  ContainerPlan plan_;
  std::string id_;
};

void ContainerServing::NoteProfile() const {
  const std::vector<std::string> names = plan_.container->ProfileNames();
  if (request_.profile || names.size() < 2) return;
  reporter_.OnNote(fmt::format("profile {}, the default one of {}", plan_.input.profile.name, fmt::join(names, ", ")));
}

StoreStatus ContainerServing::CheckNotRunning(const ContainerEngine& engine) const {
  SIGHTLINE_ASSIGN_OR_RETURN(const bool running, engine.IsRunning(plan_.name));
  if (!running) return {};
  return tl::make_unexpected(
      StoreError(Code::kBusy, {"already running",
                               fmt::format("{} is already running, in the container {}", request_.target, plan_.name),
                               {},
                               {fmt::format("{} stop {}", settings_.store.program, request_.target)}}));
}

StoreStatus ContainerServing::Plan(const ContainerEngine& engine) {
  SIGHTLINE_ASSIGN_OR_RETURN(plan_, PlanContainer(settings_, found_.package, request_.profile));
  NoteProfile();
  SIGHTLINE_RETURN_IF_ERROR(CheckNotRunning(engine));
  SIGHTLINE_ASSIGN_OR_RETURN(plan_.input.port, PickPort(request_.port));
  if (!request_.port && plan_.input.port != kDefaultPort) {
    reporter_.OnNote(fmt::format("port {} is taken: serving on {}", kDefaultPort, plan_.input.port));
  }
  // Seen before gigabytes are fetched for nothing; granted when the container starts.
  const auto grant =
      GrantDevices(engine, found_.package, plan_.input.profile, request_.devices, settings_.store.host_root);
  if (!grant) return tl::make_unexpected(grant.error());
  SIGHTLINE_ASSIGN_OR_RETURN(const bool rootless, engine.IsRootless());
  if (rootless) plan_.input.user = plan_.input.group = 0;
  return {};
}

StoreStatus ContainerServing::MakeFolders() const {
  const std::filesystem::path& cache = plan_.input.cache_folder;
  for (const auto& folder :
       {plan_.input.hf_home, plan_.input.hub_cache, cache / "cache", cache / "weights", cache / "tensors"}) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return tl::make_unexpected(StoreError(ErrnoError("create", folder, error.value())));
  }
  return {};
}

StoreStatus ContainerServing::Fetch() {
  if (!found_.installed) {
    PullOptions options;
    options.mode = RunMode::kContainer;
    options.license = request_.license;
    SIGHTLINE_ASSIGN_OR_RETURN(PullReport pulled, store_.Pull(found_.target, options, &reporter_, stop_));
    found_.package = std::move(pulled.package);
    const int port = plan_.input.port;
    const uint32_t user = plan_.input.user, group = plan_.input.group;
    SIGHTLINE_ASSIGN_OR_RETURN(plan_, PlanContainer(settings_, found_.package, request_.profile));
    plan_.input.port = port;
    plan_.input.user = user;
    plan_.input.group = group;
  }
  SIGHTLINE_ASSIGN_OR_RETURN(plan_.input.image,
                             store_.EnsureImage(found_.package, request_.local_only, false, &reporter_, stop_));
  plan_.input.manifest = &found_.package.manifest;
  plan_.container = &*found_.package.manifest.container;
  SIGHTLINE_RETURN_IF_ERROR(MakeFolders());
  WeightsRequest weights;
  weights.weights = found_.package.manifest.AllWeights();
  const bool local = request_.no_weights || request_.local_only;
  weights.access = local ? WeightsAccess::kLocalOnly : WeightsAccess::kFetch;
  weights.environment = plan_.input.profile.env;
  weights.license = request_.license;
  const auto states = store_.EnsureWeights(weights, &reporter_, stop_);
  if (!states) return tl::make_unexpected(states.error());
  return {};
}

StoreStatus ContainerServing::RunContainer(const ContainerEngine& engine) {
  SIGHTLINE_ASSIGN_OR_RETURN(plan_.input.devices, GrantDevices(engine, found_.package, plan_.input.profile,
                                                               request_.devices, settings_.store.host_root));
  plan_.input.detach = true;
  plan_.input.arguments = request_.arguments;
  SIGHTLINE_RETURN_IF_ERROR(ResolveFolders(plan_.input));
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::string> words, DockerRunCommand(plan_.input));
  constexpr size_t kProgramAndRun = 2;
  const auto id = engine.Run({words.begin() + kProgramAndRun, words.end()}, {});
  if (!id) {
    // A container that was made and could not start would stand in the way of the next try.
    if (engine.Exists(plan_.name).value_or(false) && !engine.IsRunning(plan_.name).value_or(true)) {
      (void)engine.Remove(plan_.name, true);
    }
    return tl::make_unexpected(StoreError(id.error()));
  }
  id_ = id->substr(0, id->find_first_of("\r\n"));
  return {};
}

StoreStatus ContainerServing::Start(const ContainerEngine& engine) {
  Step step(reporter_, "container", "starting the container");
  // Others that start meanwhile would take the name, or the chips. Where no lock can be made there is none.
  const auto lock = FileLock::Take(settings_.servers / "containers.lock", FileLock::Kind::kExclusive);
  SIGHTLINE_RETURN_IF_ERROR(CheckNotRunning(engine));
  SIGHTLINE_ASSIGN_OR_RETURN(const bool left_over, engine.Exists(plan_.name));
  if (left_over) SIGHTLINE_RETURN_IF_ERROR(engine.Remove(plan_.name, true));
  SIGHTLINE_RETURN_IF_ERROR(RunContainer(engine));
  step.DoneAs("container started", plan_.name);
  reporter_.OnContainer(id_.empty() ? plan_.name : id_, fmt::format("http://127.0.0.1:{}/v1", plan_.input.port));
  return {};
}

StoreResult<ServeReport> ContainerServing::Follow(const ContainerEngine& engine) {
  SIGHTLINE_ASSIGN_OR_RETURN(std::vector<std::string> landmarks, ReadyLandmarks(*plan_.container));
  BootTracker tracker(plan_.container->kind, std::move(landmarks));
  BootReport boot(tracker, reporter_);
  const auto line_came = [&boot](bool changed) {
    if (changed) boot.Update();
  };
  SIGHTLINE_ASSIGN_OR_RETURN(const BootEnd end,
                             FollowBoot(engine, plan_.name, &tracker, request_.ready_timeout, line_came, stop_));
  ServeReport report = Report(end.kind == BootEndKind::kReady       ? ServeEnd::kReady
                              : end.kind == BootEndKind::kCancelled ? ServeEnd::kInterrupted
                                                                    : ServeEnd::kNotReady);
  report.elapsed = end.elapsed;
  if (report.end != ServeEnd::kNotReady) return report;
  boot.Fail();
  report.diagnosis =
      DiagnoseBoot(tracker, end, {plan_.name, request_.target, settings_.store.program, request_.arguments});
  return report;
}

ServeReport ContainerServing::Report(ServeEnd end) const {
  ServeReport report;
  report.end = end;
  report.mode = RunMode::kContainer;
  report.name = plan_.name;
  report.target = request_.target;
  report.profile = plan_.input.profile.name;
  report.chat = SpeaksOpenAi(plan_.container->kind);
  report.port = plan_.input.port;
  report.endpoint = fmt::format("http://127.0.0.1:{}", plan_.input.port);
  return report;
}

}  // namespace

StoreResult<ServeReport> ServeInContainer(const LaunchSettings& settings, Store& store, FoundPackage found,
                                          const ServeRequest& request, Reporter& reporter, std::stop_token stop) {
  return ContainerServing(settings, store, found, request, reporter, std::move(stop)).Run();
}

}  // namespace sightline
