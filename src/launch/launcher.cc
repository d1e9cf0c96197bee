#include <fmt/format.h>

#include <algorithm>

#include "launch/launcher_state.h"

namespace sightline {
namespace {

// Host() asks the engine for its version, which can take a second: only where the answer decides something.
StoreResult<RunChoice> Choose(const Store& store, const LocalPackage& package, const ServeRequest& request) {
  std::optional<RunMode> asked = request.mode;
  if (!asked && request.profile == kNativeProfile && package.native) asked = RunMode::kNative;
  // Profiles and devices are of containers.
  const bool wants_container = (request.profile && request.profile != kNativeProfile) || !request.devices.empty();
  if (!asked && wants_container) asked = RunMode::kContainer;
  if (!asked && package.entry && package.entry->mode == RunMode::kNative && package.native) asked = RunMode::kNative;
  const HostFacts host = asked || !package.native ? HostFacts{} : store.Host();
  return ChooseRun(package, host, asked);
}

// Where the weights are, or would be.
std::filesystem::path WeightsFolder(Store& store, const WeightsPointer& weights) {
  const std::string revision = weights.revision.value_or("main");
  if (const auto found = store.hub().cache().Find(weights.repo, revision)) return found->folder;
  return store.hub().cache().root() / CacheFolderName(weights.repo) / "snapshots" / revision;
}

StoreResult<std::string> PrintableContainer(const LaunchSettings& settings, const LocalPackage& package,
                                            const ServeRequest& request) {
  SIGHTLINE_ASSIGN_OR_RETURN(ContainerPlan plan, PlanContainer(settings, package, request.profile));
  DockerRunInput& input = plan.input;
  input.port = request.port.value_or(kDefaultPort);
  input.arguments = request.arguments;
  const EngineOptions& options = settings.store.engine;
  input.program = options.program.empty() ? "docker" : options.program;
  input.run_options = options.run_arguments;
  input.image = ImageReference(package.manifest, package.entry);
  // Without an engine or a device the command is shown with all of them.
  if (const auto engine = ContainerEngine::Find(options)) {
    if (options.program.empty()) input.program = engine->program();
    const auto grant = GrantDevices(*engine, package, input.profile, request.devices, settings.store.host_root);
    if (grant) input.devices = *grant;
    if (!grant && !request.devices.empty()) return tl::make_unexpected(grant.error());
    if (engine->IsRootless().value_or(false)) input.user = input.group = 0;
  }
  SIGHTLINE_RETURN_IF_ERROR(ResolveFolders(input));
  SIGHTLINE_ASSIGN_OR_RETURN(std::vector<std::string> words, DockerRunCommand(input));
  words.insert(words.begin() + 1, options.arguments.begin(), options.arguments.end());
  return ShellJoin(words);
}

}  // namespace

Launcher::Launcher(LaunchSettings settings) : state_(std::make_unique<State>(std::move(settings))) {}
Launcher::~Launcher() = default;

const LaunchSettings& Launcher::settings() const { return state_->settings; }
Store& Launcher::store() { return state_->store; }

StoreResult<ServeReport> Launcher::Serve(const ServeRequest& request, Reporter* reporter, std::stop_token stop) {
  Reporter& told = OrSilent(reporter);
  SIGHTLINE_ASSIGN_OR_RETURN(FoundPackage found, FindPackage(state_->store, request, told, stop));
  SIGHTLINE_ASSIGN_OR_RETURN(const RunChoice choice, Choose(state_->store, found.package, request));
  if (!choice.reason.empty()) told.OnNote(choice.reason);
  if (choice.mode == RunMode::kNative) {
    return ServeNatively(state_->settings, state_->store, state_->natives, std::move(found), request, told,
                         std::move(stop));
  }
  return ServeInContainer(state_->settings, state_->store, std::move(found), request, told, std::move(stop));
}

StoreResult<std::string> Launcher::PrintableCommand(const ServeRequest& request, Reporter* reporter,
                                                    std::stop_token stop) {
  ServeRequest unchanged = request;
  unchanged.refresh = false;
  Reporter& told = OrSilent(reporter);
  SIGHTLINE_ASSIGN_OR_RETURN(const FoundPackage found, FindPackage(state_->store, unchanged, told, stop));
  const LocalPackage& package = found.package;
  SIGHTLINE_ASSIGN_OR_RETURN(const RunChoice choice, Choose(state_->store, package, request));
  if (!choice.reason.empty()) told.OnNote(choice.reason);
  if (choice.mode == RunMode::kContainer) return PrintableContainer(state_->settings, package, request);
  SIGHTLINE_RETURN_IF_ERROR(CheckNativeRequest(request));
  const int port = request.port.value_or(kDefaultPort);
  return ShellJoin(NativeWords(state_->settings, *package.native, WeightsFolder(state_->store, package.native->weights),
                               port, request.arguments));
}

StoreResult<std::vector<std::string>> Launcher::NativeCommand(const ServeRequest& request, Reporter* reporter,
                                                              std::stop_token stop) {
  Reporter& told = OrSilent(reporter);
  SIGHTLINE_ASSIGN_OR_RETURN(FoundPackage found, FindPackage(state_->store, request, told, stop));
  SIGHTLINE_ASSIGN_OR_RETURN([[maybe_unused]] const RunChoice native, ChooseRun(found.package, {}, RunMode::kNative));
  SIGHTLINE_RETURN_IF_ERROR(CheckNativeRequest(request));
  SIGHTLINE_ASSIGN_OR_RETURN(const std::filesystem::path weights,
                             PrepareNative(state_->store, found, request, told, stop));
  SIGHTLINE_ASSIGN_OR_RETURN(const int port, PickPort(request.port));
  return NativeWords(state_->settings, *found.package.native, weights, port, request.arguments);
}

StoreResult<std::vector<ProfileRow>> Launcher::Profiles(const std::string& target) {
  SIGHTLINE_ASSIGN_OR_RETURN(const FoundPackage found, FindInstalled(state_->store, target));
  std::vector<ProfileRow> rows;
  if (found.package.manifest.container) {
    const WireContainer& container = *found.package.manifest.container;
    SIGHTLINE_ASSIGN_OR_RETURN(const std::string default_name, container.DefaultProfileName());
    for (const std::string& name : container.ProfileNames()) {
      SIGHTLINE_ASSIGN_OR_RETURN(const ServeProfile profile, container.ResolveProfile(name));
      rows.push_back({name, name == default_name, profile.hardware.value_or(""), profile.mesh_device.value_or(""),
                      profile.max_num_seqs, profile.max_model_len, profile.description.value_or("")});
    }
  }
  if (found.package.native) {
    rows.push_back({kNativeProfile, rows.empty(), "this machine's processor", "", {}, {}, "natively, in no container"});
  }
  return rows;
}

}  // namespace sightline
