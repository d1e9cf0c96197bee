#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "store/documents.h"
#include "store/reporting.h"
#include "store/snapshot_files.h"
#include "store/state.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

bool IsPackageFile(std::string_view name) {
  constexpr std::string_view kFiles[] = {kWireManifestName, kNativeManifestName, "README.md", "requirements.lock",
                                         ".gitattributes"};
  return std::ranges::find(kFiles, name) != std::end(kFiles) || name.starts_with("code/") || name.starts_with("image/");
}

// Of a repository in a hub's cache; also where there is none.
bool HoldsPackageFilesAlone(const fs::path& repository) {
  std::error_code error;
  for (fs::directory_iterator at(repository / "snapshots", error), end; !error && at != end; at.increment(error)) {
    const Result<RepositoryFiles> files = RepositoryFilesBelow(at->path());
    const auto is_of_package = [](const auto& file) { return IsPackageFile(file.first); };
    if (!files || !std::ranges::all_of(*files, is_of_package)) return false;
  }
  return !error || error == std::errc::no_such_file_or_directory;
}

class Removal {
 public:
  Removal(Store& store, StoreState& state, const RemoveOptions& options, RemoveReport& report)
      : store_(store), state_(state), options_(options), report_(report) {}

  StoreStatus Run(const IndexEntry& entry);

 private:
  void RemoveContainersAndImage(const IndexEntry& entry, const LocalPackage* package);
  void RemoveImage(const ContainerEngine& engine, const std::string& reference, const WireManifest& manifest,
                   const std::string& id);
  void RemoveWeights(const LocalPackage& package);
  // Why a container is left alone though it bears the name of the package; empty: it is the package's.
  std::string OtherOwner(const ContainerEngine& engine, const std::string& container, const IndexEntry& entry,
                         const LocalPackage& package) const;
  StoreStatus RemoveRepositories(const std::string& id);
  StoreStatus RemoveFolder(const fs::path& folder);
  StoreStatus RemoveFiles(const IndexEntry& entry, const LocalPackage* package);
  // Another installed package, of which `test` is true; empty: none.
  std::string Other(const std::string& id, const std::function<bool(const LocalPackage&)>& test) const;

  Store& store_;
  StoreState& state_;
  const RemoveOptions& options_;
  RemoveReport& report_;
};

std::string Removal::Other(const std::string& id, const std::function<bool(const LocalPackage&)>& test) const {
  for (const IndexEntry& entry : state_.index.Read()) {
    if (entry.id == id) continue;
    const Result<Target> target = ParseTarget(entry.id);
    if (!target) continue;
    const StoreResult<LocalPackage> package = store_.FindLocal(*target);
    if (package && test(*package)) return entry.id;
  }
  return {};
}

StoreStatus Removal::RemoveFolder(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder, error)) || error) return {};
  fs::remove_all(folder, error);
  if (error) return tl::make_unexpected(StoreError(ErrnoError("remove", folder, error.value())));
  report_.removed.push_back("folder " + folder.string());
  return {};
}

void Removal::RemoveImage(const ContainerEngine& engine, const std::string& reference, const WireManifest& manifest,
                          const std::string& id) {
  const bool hub_hosted = manifest.container->image.IsHubHosted();
  const std::string other = Other(id, [&](const LocalPackage& package) {
    return package.manifest.container && ImageReference(package.manifest, package.entry) == reference;
  });
  if (!other.empty()) {
    report_.kept.push_back(fmt::format("image {}: {} uses it", reference, other));
    return;
  }
  if (!hub_hosted) {
    report_.kept.push_back(fmt::format("image {}: it is of a registry", reference));
    return;
  }
  const auto present = engine.ImageId(reference);
  if (!present || !*present) return;
  if (const Status removed = engine.RemoveImage(reference); !removed) {
    report_.kept.push_back(fmt::format("image {}: {}", reference, removed.error().message));
  } else {
    report_.removed.push_back("image " + reference);
  }
}

std::string Removal::OtherOwner(const ContainerEngine& engine, const std::string& container, const IndexEntry& entry,
                                const LocalPackage& package) const {
  const std::string& name = package.manifest.name;
  std::string repo;  // that the image was built for
  if (const auto state = engine.Inspect(container); state && *state) {
    const auto& labels = (*state)->labels;
    if (const auto label = labels.find(std::string(kPackageLabel) + ".repo"); label != labels.end()) {
      repo = label->second;
    }
  }
  if (repo == entry.id) return {};
  if (!repo.empty() && repo != TextMember(package.manifest.container->built, "repo")) return "it is of " + repo;
  const std::string other = Other(entry.id, [&](const LocalPackage& one) { return one.manifest.name == name; });
  return other.empty() ? "" : fmt::format("{} has the same name", other);
}

void Removal::RemoveContainersAndImage(const IndexEntry& entry, const LocalPackage* package) {
  if (package == nullptr || !package->manifest.container || !entry.container) return;
  const Result<ContainerEngine> engine = store_.Engine();
  const auto rows = engine ? engine->List(fmt::format("{}={}", kPackageLabel, package->manifest.name), true)
                           : Result<std::vector<ContainerRow>>(tl::make_unexpected(engine.error()));
  if (!rows) {
    if (entry.mode == RunMode::kContainer) {
      report_.kept.push_back(fmt::format("containers and image of {}: {}", entry.id, rows.error().message));
    }
    return;
  }
  for (const ContainerRow& row : *rows) {
    if (const std::string owner = OtherOwner(*engine, row.name, entry, *package); !owner.empty()) {
      report_.kept.push_back(fmt::format("container {}: {}", row.name, owner));
      continue;
    }
    const Status removed = engine->Remove(row.name, true);
    auto& list = removed ? report_.removed : report_.kept;
    list.push_back(fmt::format("container {}{}", row.name, removed ? "" : ": " + removed.error().message));
  }
  RemoveImage(*engine, ImageReference(package->manifest, entry), package->manifest, entry.id);
}

void Removal::RemoveWeights(const LocalPackage& package) {
  for (const WeightsPointer& pointer : WeightsFor(package, package.entry->mode)) {
    const std::string other = Other(package.id, [&](const LocalPackage& candidate) {
      const auto theirs = WeightsFor(candidate, candidate.entry->mode);
      return std::any_of(theirs.begin(), theirs.end(), [&](const auto& one) { return one.repo == pointer.repo; });
    });
    if (!other.empty()) {
      report_.kept.push_back(fmt::format("weights {}: {} uses them", pointer.repo, other));
      continue;
    }
    const HubResult<bool> removed = state_.weights.cache().Remove(pointer.repo);
    if (!removed) report_.kept.push_back(fmt::format("weights {}: {}", pointer.repo, removed.error().message));
    if (removed && *removed) report_.removed.push_back("weights " + pointer.repo);
  }
}

StoreStatus Removal::RemoveFiles(const IndexEntry& entry, const LocalPackage* package) {
  if (package != nullptr && !options_.keep_cache) {
    const std::string& name = package->manifest.name;
    const std::string other = Other(entry.id, [&](const LocalPackage& one) { return one.manifest.name == name; });
    if (other.empty()) {
      // Part by part: a package may have the name of a folder that is not its own ("pulled").
      const fs::path cache = state_.settings.folders.PackageCache(name);
      for (const char* part : {"cache", "weights", "tensors"}) SIGHTLINE_RETURN_IF_ERROR(RemoveFolder(cache / part));
      std::error_code ignored;
      fs::remove(cache, ignored);
    } else {
      report_.kept.push_back(fmt::format("cache of {}: {} uses it", name, other));
    }
  }
  if (const auto folder = RegistryFolderOf(state_.settings.folders, entry.id, entry.revision)) {
    return RemoveFolder(*folder);
  }
  if (CheckRepoId(entry.id) && entry.id.find('/') != std::string::npos) return RemoveRepositories(entry.id);
  return {};
}

// In our cache, and in the user's, where other programs keep a package's manifest and where a repository of weights
// lies that is a package too.
StoreStatus Removal::RemoveRepositories(const std::string& id) {
  for (const HubCache* cache : {&state_.packages.cache(), &state_.weights.cache()}) {
    const fs::path folder = cache->root() / CacheFolderName(id);
    const auto described = cache->Describe(id);
    const bool unfinished = described && described->unfinished_bytes > 0;
    if (cache == &state_.weights.cache() && (unfinished || !HoldsPackageFilesAlone(folder))) {
      report_.kept.push_back(fmt::format("folder {}: it holds more than the package", folder.string()));
      continue;
    }
    const HubResult<bool> removed = cache->Remove(id);
    if (!removed) return tl::make_unexpected(StoreError(removed.error()));
    if (*removed) report_.removed.push_back("folder " + folder.string());
  }
  return {};
}

StoreStatus Removal::Run(const IndexEntry& entry) {
  const Result<Target> target = ParseTarget(entry.id);
  std::optional<LocalPackage> package;
  if (target) {
    if (StoreResult<LocalPackage> found = store_.FindLocal(*target)) package = std::move(*found);
  }
  const LocalPackage* known = package ? &*package : nullptr;
  RemoveContainersAndImage(entry, known);
  if (options_.include_weights && known != nullptr) RemoveWeights(*known);
  SIGHTLINE_RETURN_IF_ERROR(RemoveFiles(entry, known));
  // The entry goes before its manifest: a package without a manifest would be a riddle to readers of the index.
  SIGHTLINE_RETURN_IF_ERROR(state_.index.Remove(entry.id));
  if (!target || target->kind == TargetKind::kFile) return {};  // a key that names no folder of ours
  return RemoveFolder(state_.settings.folders.PulledFolder(entry.id));
}

}  // namespace

StoreResult<RemoveReport> Store::Remove(const std::string& id, const RemoveOptions& options, Reporter* reporter) {
  const std::optional<IndexEntry> entry = state_->index.Find(id);
  if (!entry) {
    return tl::make_unexpected(StoreError(Code::kNotFound, {fmt::format("{} is not here", id),
                                                            fmt::format("{} is not recorded as pulled", id),
                                                            {},
                                                            {fmt::format("{} list", state_->settings.program)}}));
  }
  Step step(OrSilent(reporter), "remove", "removing " + entry->id);
  RemoveReport report;
  Removal removal(*this, *state_, options, report);
  SIGHTLINE_RETURN_IF_ERROR(removal.Run(*entry));
  step.Done();
  return report;
}

}  // namespace sightline
