#include <fmt/format.h>

#include <system_error>

#include "store/documents.h"
#include "store/reporting.h"
#include "store/state.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

// The manifest as it was published, where tt and tt-model look for it; ours beside it.
StoreStatus KeepManifest(const StoreFolders& folders, LocalPackage& package) {
  const fs::path folder = folders.pulled / folders.PulledFolder(package.id).filename();
  std::error_code error;
  std::string text = package.manifest.ToJson();
  if (fs::exists(package.manifest_file, error)) {
    SIGHTLINE_ASSIGN_OR_RETURN(text, ReadTextFile(package.manifest_file));
  }
  const fs::path native = package.manifest_file.parent_path() / kNativeManifestName;
  if (fs::exists(native, error)) {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::string ours, ReadTextFile(native));
    SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(folder / kNativeManifestName, ours));
  } else {
    fs::remove(folder / kNativeManifestName, error);
  }
  SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(folder / kWireManifestName, text));
  package.manifest_file = folder / kWireManifestName;
  return {};
}

StoreStatus KeepBuiltIn(const StoreFolders& folders, LocalPackage& package) {
  const BuiltInPackage* built_in = FindBuiltInPackage(package.id);
  const fs::path folder = folders.pulled / folders.PulledFolder(package.id).filename();
  SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(folder / kNativeManifestName, built_in->sightline_yaml));
  SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(folder / kWireManifestName, package.manifest.ToJson()));
  package.manifest_file = folder / kWireManifestName;
  return {};
}

bool Unchanged(const std::optional<IndexEntry>& before, const IndexEntry& now) {
  return before && before->revision == now.revision && before->image_digest == now.image_digest;
}

}  // namespace

StoreStatus InstallManifest(StoreState& state, LocalPackage& package, RunMode mode) {
  const StoreFolders& folders = state.settings.folders;
  IndexEntry entry = package.entry ? *package.entry : EntryFor(package);
  const bool built_in = FindBuiltInPackage(package.id) != nullptr;
  SIGHTLINE_RETURN_IF_ERROR(built_in ? KeepBuiltIn(folders, package) : KeepManifest(folders, package));
  entry.manifest = package.manifest_file;
  entry.mode = mode;
  if (built_in) entry.container = false;
  if (const auto before = state.index.Find(entry.id)) {
    entry.other = before->other;
    if (!entry.image_loaded_id && before->image_digest == entry.image_digest) {  // of the image nothing has changed
      entry.image = ImageReference(package.manifest, before);
      entry.image_loaded_id = before->image_loaded_id;
    }
  }
  package.entry = entry;
  SIGHTLINE_RETURN_IF_ERROR(state.index.Put(entry));
  return {};
}

namespace {

class PullWork {
 public:
  PullWork(StoreState& state, const PullOptions& options, Reporter& reporter, std::stop_token stop)
      : state_(state), options_(options), reporter_(reporter), stop_(std::move(stop)) {}

  // `report` holds the package and how it runs.
  StoreStatus BringImageOf(PullReport& report, const HostFacts& host);

 private:
  StoreState& state_;
  const PullOptions& options_;
  Reporter& reporter_;
  std::stop_token stop_;
};

StoreStatus PullWork::BringImageOf(PullReport& report, const HostFacts& host) {
  LocalPackage& package = report.package;
  SIGHTLINE_ASSIGN_OR_RETURN(const WireContainer* container, package.manifest.RequireContainer());
  if (host.engine) {
    SIGHTLINE_ASSIGN_OR_RETURN(const ContainerEngine engine, ContainerEngine::Find(state_.settings.engine));
    SIGHTLINE_ASSIGN_OR_RETURN(const ImageOutcome outcome,
                               BringImage(state_, engine, package, {false, options_.force}, reporter_, stop_));
    report.image_loaded = outcome.loaded;
    return {};
  }
  if (!container->image.IsHubHosted()) {
    return tl::make_unexpected(StoreError(
        Code::kUnsupported, {"no container engine is here",
                             fmt::format("the image of {} lies in a registry, which docker or podman asks: {}",
                                         package.id, host.engine_problem),
                             {},
                             {}}));
  }
  reporter_.OnNote(fmt::format("no container engine is here ({}): the image stays in the store", host.engine_problem));
  if (package.image_layout.empty()) {
    SIGHTLINE_ASSIGN_OR_RETURN(package.image_layout, FetchImageFiles(state_, package, reporter_, stop_));
  }
  Step step(reporter_, "image", "checking the image");
  SIGHTLINE_ASSIGN_OR_RETURN(const OciLayout layout, OpenOciLayout(package.image_layout));
  SIGHTLINE_RETURN_IF_ERROR(VerifyOciLayout(layout, TransferFor(reporter_, "image", stop_)));
  step.Done();
  return {};
}

}  // namespace

StoreResult<PullReport> FinishPull(Store& store, StoreState& state, LocalPackage package, const PullOptions& options,
                                   Reporter& reporter, std::stop_token stop) {
  const std::optional<IndexEntry> before = state.index.Find(package.id);
  const HostFacts host = store.Host();
  PullReport report;
  SIGHTLINE_ASSIGN_OR_RETURN(report.run, ChooseRun(package, host, options.mode));
  if (!report.run.reason.empty()) reporter.OnNote(report.run.reason);
  report.package = std::move(package);
  PullWork work(state, options, reporter, stop);
  if (report.run.mode == RunMode::kContainer) {
    SIGHTLINE_RETURN_IF_ERROR(work.BringImageOf(report, host));
  }
  SIGHTLINE_RETURN_IF_ERROR(InstallManifest(state, report.package, report.run.mode));
  report.changed = !Unchanged(before, *report.package.entry);
  if (!options.with_weights) return report;
  WeightsRequest request;
  request.weights = WeightsFor(report.package, report.run.mode);
  request.required = true;
  request.license = options.license;
  SIGHTLINE_ASSIGN_OR_RETURN(report.weights, store.EnsureWeights(request, &reporter, stop));
  return report;
}

StoreResult<PullReport> Store::Pull(const Target& target, const PullOptions& options, Reporter* reporter,
                                    std::stop_token stop) {
  Reporter& told = OrSilent(reporter);
  if (target.kind == TargetKind::kFile) {
    return tl::make_unexpected(StoreError(Error{
        Code::kUsage, fmt::format("{} is a file here, expected ORG/NAME or oci://HOST/REPO:TAG", target.id), {}}));
  }
  const std::optional<FileLock> lock = state_->LockForAdding();
  Step step(told, "manifest", "resolving " + target.id);
  SIGHTLINE_ASSIGN_OR_RETURN(LocalPackage package, FetchManifest(target, &told, stop));
  step.Done(package.entry && package.entry->revision ? package.entry->revision->substr(0, 19) : "");
  return FinishPull(*this, *state_, std::move(package), options, told, std::move(stop));
}

}  // namespace sightline
