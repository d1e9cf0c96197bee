#include <fmt/format.h>

#include <set>
#include <system_error>

#include "store/reporting.h"
#include "store/state.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

class Verification {
 public:
  Verification(Store& store, StoreState& state, bool repair, Reporter& reporter, std::stop_token stop)
      : store_(store), state_(state), repair_(repair), reporter_(reporter), stop_(std::move(stop)) {}

  StoreStatus CheckIndex();
  StoreStatus CheckPackage(const IndexEntry& entry);
  VerifyReport report;

 private:
  void Note(const std::string& package, const fs::path& path, std::string sentence, bool repaired = false) {
    report.problems.push_back({package, path, std::move(sentence), repaired});
  }
  // Returns whether something was removed that the hub should bring back.
  StoreResult<bool> CheckRepo(const HubCache& cache, const std::string& repo, const std::string& package);
  StoreStatus CheckImage(const LocalPackage& package);
  StoreStatus CheckWeights(const LocalPackage& package);
  StoreStatus CheckManifest(const IndexEntry& entry, const Target& target);

  Store& store_;
  StoreState& state_;
  bool repair_;
  Reporter& reporter_;
  std::stop_token stop_;
  std::set<fs::path> done_;  // repositories that several packages use
};

StoreStatus Verification::CheckIndex() {
  const auto entries = state_.index.ReadStrictly();
  if (!entries && entries.error().code == Code::kCorruptWeights) {
    Note({}, state_.settings.folders.index, entries.error().message);
    return {};
  }
  if (!entries) return tl::make_unexpected(StoreError(entries.error()));
  return {};
}

StoreResult<bool> Verification::CheckRepo(const HubCache& cache, const std::string& repo, const std::string& package) {
  const fs::path folder = cache.root() / CacheFolderName(repo);
  std::error_code error;
  if (!fs::exists(folder, error) || !done_.insert(folder).second) return false;
  HubReporter sink(reporter_, "verify");
  HubResult<CacheReport> checked = cache.Verify(repo, repair_, &sink, stop_);
  if (!checked) return tl::make_unexpected(StoreError(checked.error()));
  bool removed = false;
  for (CacheProblem& problem : checked->problems) {
    removed = removed || problem.repaired;
    Note(package, problem.path, std::move(problem.sentence), problem.repaired);
  }
  report.files += checked->blobs;
  report.bytes += checked->bytes;
  report.unfinished_bytes += checked->unfinished_bytes;
  return removed;
}

StoreStatus Verification::CheckManifest(const IndexEntry& entry, const Target& target) {
  const StoreResult<LocalPackage> package = store_.FindLocal(target);
  if (package) return {};
  bool repaired = false;
  if (repair_) {
    Target again = target;
    if (target.kind == TargetKind::kHub) again.revision = entry.revision;
    StoreResult<LocalPackage> fetched = store_.FetchManifest(again, &reporter_, stop_);
    if (fetched && !fetched->entry) fetched->entry = entry;
    if (fetched) fetched->entry->pinned = entry.pinned;
    repaired = fetched && InstallManifest(state_, *fetched, entry.mode);
  }
  Note(entry.id, entry.manifest, package.error().message, repaired);
  return {};
}

StoreStatus Verification::CheckImage(const LocalPackage& package) {
  fs::path folder = package.image_layout;
  if (folder.empty() && package.entry) {
    // Of a registry the layout's index comes last: a blob that is missing was there once.
    const auto fetched = RegistryFolderOf(state_.settings.folders, package.id, package.entry->revision);
    if (fetched && HasLayout(*fetched / "image")) folder = *fetched / "image";
  }
  if (folder.empty()) return {};
  const Result<OciLayout> layout = OpenOciLayout(folder);
  const Status checked = layout ? VerifyOciLayout(*layout, TransferFor(reporter_, "verify", stop_))
                                : Status(tl::make_unexpected(layout.error()));
  if (!checked && checked.error().code == Code::kCancelled) return tl::make_unexpected(StoreError(checked.error()));
  if (checked) {
    report.files += static_cast<int>(layout->images.size());
    return {};
  }
  bool repaired = false;
  if (repair_ && package.entry && package.entry->container) {
    if (package.id.starts_with("oci://")) {
      std::error_code error;
      fs::remove_all(folder, error);
    }
    repaired = FetchImageFiles(state_, package, reporter_, stop_).has_value();
  }
  Note(package.id, folder, checked.error().message, repaired);
  return {};
}

StoreStatus Verification::CheckWeights(const LocalPackage& package) {
  std::vector<WeightsPointer> pointers = WeightsFor(package, package.entry->mode);
  WeightsRequest again;
  for (const WeightsPointer& pointer : pointers) {
    SIGHTLINE_ASSIGN_OR_RETURN(const bool removed, CheckRepo(state_.weights.cache(), pointer.repo, package.id));
    if (removed) again.weights.push_back(pointer);
  }
  if (again.weights.empty()) return {};
  const auto fetched = store_.EnsureWeights(again, &reporter_, stop_);
  if (!fetched) reporter_.OnWarning(fetched.error().message);
  return {};
}

StoreStatus Verification::CheckPackage(const IndexEntry& entry) {
  ++report.packages;
  const Result<Target> target = ParseTarget(entry.id);
  if (!target || target->kind == TargetKind::kFile) {
    Note(entry.id, state_.settings.folders.index, fmt::format("'{}' names no package", entry.id));
    return {};
  }
  if (!entry.container && target->kind == TargetKind::kHub) return {};  // another program's install
  bool again = false;
  if (target->kind == TargetKind::kHub) {
    SIGHTLINE_ASSIGN_OR_RETURN(again, CheckRepo(state_.packages.cache(), entry.id, entry.id));
  }
  SIGHTLINE_RETURN_IF_ERROR(CheckManifest(entry, *target));
  StoreResult<LocalPackage> package = store_.FindLocal(*target);
  if (!package) return {};  // said already
  if (again && package->entry && package->image_layout.empty() && entry.mode == RunMode::kContainer) {
    if (const auto fetched = FetchImageFiles(state_, *package, reporter_, stop_); !fetched) {
      reporter_.OnWarning(fetched.error().message);
    } else {
      package->image_layout = *fetched;
    }
  }
  SIGHTLINE_RETURN_IF_ERROR(CheckImage(*package));
  return package->entry ? CheckWeights(*package) : StoreStatus();
}

}  // namespace

StoreResult<VerifyReport> Store::Verify(const std::optional<std::string>& id, bool repair, Reporter* reporter,
                                        std::stop_token stop) {
  Reporter& told = OrSilent(reporter);
  const std::optional<FileLock> lock = state_->LockForAdding();
  Verification work(*this, *state_, repair, told, std::move(stop));
  std::vector<IndexEntry> entries;
  if (id) {
    const std::optional<IndexEntry> entry = state_->index.Find(*id);
    if (!entry) {
      return tl::make_unexpected(
          StoreError(Error{Code::kNotFound, fmt::format("{} is not recorded as pulled", *id), {}}));
    }
    entries.push_back(*entry);
  } else {
    SIGHTLINE_RETURN_IF_ERROR(work.CheckIndex());
    entries = state_->index.Read();
  }
  for (const IndexEntry& entry : entries) {
    Step step(told, "verify", "checking " + entry.id);
    SIGHTLINE_RETURN_IF_ERROR(work.CheckPackage(entry));
    step.Done();
  }
  return std::move(work.report);
}

}  // namespace sightline
