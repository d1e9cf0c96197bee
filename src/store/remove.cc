#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "store/reporting.h"
#include "store/state.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

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
  if (const Result<OciReference> reference = ParseOciReference(entry.id);
      entry.id.starts_with("oci://") && reference && entry.revision && IsDigest(*entry.revision)) {
    SIGHTLINE_RETURN_IF_ERROR(RemoveFolder(RegistryFolder(state_.settings.folders, *reference, *entry.revision)));
  } else if (CheckRepoId(entry.id) && entry.id.find('/') != std::string::npos) {
    for (const HubCache* cache : {&state_.packages.cache(), &state_.weights.cache()}) {
      const HubResult<bool> removed = cache->Remove(entry.id);
      if (!removed) return tl::make_unexpected(StoreError(removed.error()));
      if (*removed) report_.removed.push_back("folder " + (cache->root() / CacheFolderName(entry.id)).string());
    }
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
