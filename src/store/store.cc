#include "store/store.h"

#include <fmt/format.h>

#include <system_error>

#include "store/documents.h"
#include "store/reporting.h"
#include "store/state.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

HubSettings WithCache(HubSettings settings, const fs::path& cache) {
  settings.cache = cache;
  settings.cache_variable = "SIGHTLINE_CACHE";
  return settings;
}

Result<LocalPackage> LoadPackage(const std::string& id, const fs::path& manifest_file) {
  LocalPackage package;
  package.id = id;
  package.manifest_file = manifest_file;
  SIGHTLINE_ASSIGN_OR_RETURN(package.manifest, WireManifest::Load(manifest_file));
  Result<std::optional<NativePackage>> native = NativeForm(package.manifest, manifest_file);
  if (native) {
    package.native = std::move(*native);
  } else {
    package.native_problem = native.error().message;
  }
  const fs::path image = manifest_file.parent_path() / "image";
  if (LayoutIsWhole(image)) package.image_layout = image;
  return package;
}

// A package of ours without any file: what its tt-model.yaml says, for readers of wire manifests.
Result<WireManifest> WireOfBuiltIn(const BuiltInPackage& built_in) {
  SIGHTLINE_ASSIGN_OR_RETURN(const Manifest manifest,
                             Manifest::Parse(built_in.tt_model_yaml, built_in.name + "/" + kAuthoringManifestName));
  WireFacts facts;
  facts.created_at = UtcNow();
  facts.runtime = manifest.runtime;
  return ToWire(manifest, std::move(facts));
}

Result<LocalPackage> BuiltInPackageNamed(const std::string& name, const fs::path& pulled) {
  const BuiltInPackage* built_in = FindBuiltInPackage(name);
  SIGHTLINE_CHECK(built_in != nullptr);
  LocalPackage package;
  package.id = name;
  SIGHTLINE_ASSIGN_OR_RETURN(package.manifest, WireOfBuiltIn(*built_in));
  package.manifest_file = pulled / kWireManifestName;
  package.native = built_in->native;
  return package;
}

FailureCard NotHere(const Target& target, const std::string& program) {
  return {fmt::format("{} is not here", target.id),
          fmt::format("{} has not been pulled", target.id),
          {},
          {fmt::format("{} pull {}", program, target.id)}};
}

}  // namespace

StoreState::StoreState(StoreSettings given)
    : settings(std::move(given)),
      index(settings.folders.index),
      weights(settings.hub),
      packages(WithCache(settings.hub, settings.folders.images)) {}

std::optional<FileLock> StoreState::LockForAdding() const {
  Result<FileLock> lock = FileLock::Take(LockFile(), FileLock::Kind::kShared);
  if (!lock) return std::nullopt;
  return std::move(*lock);
}

Store::Store(StoreSettings settings) : state_(std::make_unique<State>(std::move(settings))) {}
Store::~Store() = default;

const StoreSettings& Store::settings() const { return state_->settings; }
const PackageIndex& Store::index() const { return state_->index; }
Hub& Store::hub() { return state_->weights; }

Result<ContainerEngine> Store::Engine() const { return ContainerEngine::Find(state_->settings.engine); }

StoreResult<LocalPackage> Store::FindLocal(const Target& target) const {
  if (target.kind == TargetKind::kFile) return LoadPackage(target.id, target.manifest_file);
  const StoreFolders& folders = state_->settings.folders;
  const std::optional<IndexEntry> entry = state_->index.Find(target.id);
  fs::path file = entry ? entry->manifest : fs::path();
  std::error_code error;
  if (file.empty() || !fs::exists(file, error)) file = folders.PulledFolder(target.id) / kWireManifestName;
  // Another kind of install has replaced what was pulled before.
  const bool replaced = entry && !entry->container && target.kind == TargetKind::kHub;
  if (replaced || !fs::exists(file, error)) {
    return tl::make_unexpected(StoreError(Code::kNotFound, NotHere(target, state_->settings.program)));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(LocalPackage package, LoadPackage(target.id, file));
  if (entry) package.id = entry->id;
  package.entry = entry;
  if (target.kind == TargetKind::kShortName) {
    package.native = FindBuiltInPackage(target.id)->native;
    package.native_problem.clear();
  }
  if (!entry || !package.image_layout.empty()) return package;
  const std::optional<fs::path> image = FetchedImage(*state_, package);
  if (image && LayoutIsWhole(*image)) package.image_layout = *image;
  return package;
}

std::optional<fs::path> FetchedImage(const StoreState& state, const LocalPackage& package) {
  const std::optional<std::string>& revision = package.entry->revision;
  if (const auto folder = RegistryFolderOf(state.settings.folders, package.id, revision)) return *folder / "image";
  if (!revision || !CheckRepoId(package.id)) return std::nullopt;
  const auto snapshot = state.packages.cache().Find(package.id, *revision);
  return snapshot ? std::optional(snapshot->folder / "image") : std::nullopt;
}

namespace {

StoreResult<fs::path> FetchHubManifest(Hub& hub, const Target& target, Reporter& reporter, std::stop_token stop) {
  HubReporter sink(reporter, {});
  const std::string revision = target.revision.value_or("main");
  HubResult<fs::path> file = hub.Fetch(target.id, revision, kWireManifestName, &sink, stop);
  if (!file) return tl::make_unexpected(PackageError(file.error(), target.id));
  // Beside it, where there is one: NativeForm reads it.
  const HubResult<fs::path> native = hub.Fetch(target.id, CommitOf(*file), kNativeManifestName, &sink, stop);
  if (native || native.error().fault == HubFault::kNoEntry) return *file;
  if (native.error().fault != HubFault::kUnreachable) return tl::make_unexpected(StoreError(native.error()));
  reporter.OnWarning(fmt::format("whether {} has a {} is not known, and it is taken to have none: {}", target.id,
                                 kNativeManifestName, native.error().message));
  return *file;
}

StoreResult<fs::path> FetchRegistryManifest(const StoreFolders& folders, const OciReference& reference,
                                            std::stop_token stop) {
  SIGHTLINE_ASSIGN_OR_RETURN(const RegistryOptions options, RegistryOptionsFor(reference, {{}, stop}));
  RegistryClient client(reference, options);
  SIGHTLINE_ASSIGN_OR_RETURN(const auto found,
                             client.FindManifest(reference.digest.empty() ? reference.tag : reference.digest));
  if (!found) {
    return tl::make_unexpected(StoreError(
        Code::kNotFound, {"no such package",
                          fmt::format("{}: the registry has no such tag or digest", FormatOciReference(reference)),
                          {},
                          {}}));
  }
  OciReference exact = reference;
  exact.digest = found->digest;
  const auto place = RegistryFolderOf(folders, FormatOciReference(reference), found->digest);
  if (!place) {
    return tl::make_unexpected(
        StoreError(Error{Code::kInvalidRequest,
                         fmt::format("{}: the registry calls it '{}', expected a digest of sha256",
                                     FormatOciReference(reference), found->digest),
                         {}}));
  }
  const fs::path& folder = *place;
  SIGHTLINE_ASSIGN_OR_RETURN(const PulledFolder pulled, PullFolder(exact, folder, IsManifestFile, options));
  std::error_code error;
  if (!fs::exists(folder / kWireManifestName, error)) {
    return tl::make_unexpected(StoreError(
        Code::kInvalidRequest, {"not a package",
                                fmt::format("{} holds '{}', expected a package with {}", FormatOciReference(reference),
                                            pulled.artifact_type, kWireManifestName),
                                {},
                                {}}));
  }
  SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(folder / kRegistryManifestName, pulled.manifest));
  return folder / kWireManifestName;
}

}  // namespace

StoreResult<LocalPackage> Store::FetchManifest(const Target& asked, Reporter* reporter, std::stop_token stop) {
  Reporter& told = OrSilent(reporter);
  const StoreFolders& folders = state_->settings.folders;
  Target target = asked;
  // The hub knows one repository by its name in any case; here it keeps the one it came under.
  if (const auto recorded = state_->index.Find(asked.id); recorded && asked.kind == TargetKind::kHub) {
    target.id = recorded->id;
  }
  if (target.kind == TargetKind::kFile) return LoadPackage(target.id, target.manifest_file);
  if (target.kind == TargetKind::kShortName) return BuiltInPackageNamed(target.id, folders.PulledFolder(target.id));
  fs::path file;
  std::string revision;
  if (target.kind == TargetKind::kHub) {
    SIGHTLINE_ASSIGN_OR_RETURN(file, FetchHubManifest(state_->packages, target, told, stop));
    revision = CommitOf(file);
  } else {
    SIGHTLINE_ASSIGN_OR_RETURN(const OciReference reference, ParseOciReference(target.id));
    SIGHTLINE_ASSIGN_OR_RETURN(file, FetchRegistryManifest(folders, reference, stop));
    revision = std::string(kDigestPrefix) + file.parent_path().filename().string();
  }
  SIGHTLINE_ASSIGN_OR_RETURN(LocalPackage package, LoadPackage(target.id, file));
  package.entry = EntryFor(package);
  package.entry->revision = revision;
  package.entry->pinned = target.revision.has_value();
  if (!package.native_problem.empty()) {
    told.OnWarning(fmt::format("{} cannot run natively: {}", package.id, package.native_problem));
  }
  return package;
}

StoreResult<std::string> Store::TipRevision(const IndexEntry& entry, std::chrono::milliseconds bound) {
  HubSettings settings = state_->settings.hub;
  settings.connect_timeout = std::min(settings.connect_timeout, bound);
  settings.stall_timeout = std::max(std::chrono::seconds(1), std::chrono::floor<std::chrono::seconds>(bound));
  settings.attempts = 1;
  Hub hub(settings);
  HubResult<std::string> commit = hub.ResolveRevision(entry.id, "main");
  if (!commit) return tl::make_unexpected(StoreError(commit.error()));
  return *commit;
}

StoreResult<std::vector<HubRepo>> Store::Search(const std::string& text, bool catalog, const std::string& arch,
                                                int limit, std::stop_token stop) {
  HubQuery query{text, {catalog ? "tt-model-catalog" : "tt-model-cache"}, {}, limit};
  if (!arch.empty()) query.tags.push_back(arch);
  HubResult<std::vector<HubRepo>> found = state_->packages.Search(query, std::move(stop));
  if (!found) return tl::make_unexpected(StoreError(found.error()));
  return std::move(*found);
}

}  // namespace sightline
