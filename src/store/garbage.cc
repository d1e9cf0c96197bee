#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "store/reporting.h"
#include "store/scratch_folder.h"
#include "store/state.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

uint64_t BytesBelow(const fs::path& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (at->is_regular_file(ignored) && !at->is_symlink(ignored)) bytes += at->file_size(ignored);
  }
  return bytes;
}

std::vector<fs::path> EntriesOf(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(at->path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

class Sweep {
 public:
  Sweep(Store& store, StoreState& state, std::vector<IndexEntry> entries, GarbageReport& report)
      : store_(store), state_(state), entries_(std::move(entries)), report_(report) {}

  StoreStatus PackageRepos();
  StoreStatus RegistryFolders();
  StoreStatus PulledFolders();
  StoreStatus Weights();
  StoreStatus LoadedImages();
  StoreStatus ScratchFolders();
  void TemporaryFiles(const fs::path& folder);

 private:
  const IndexEntry* Find(std::string_view id) const {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& one) { return one.id == id; });
    return found == entries_.end() ? nullptr : &*found;
  }
  StoreStatus RemoveFolder(const fs::path& folder);
  StoreStatus OneRepo(const CachedRepo& repo, const IndexEntry& entry);

  Store& store_;
  StoreState& state_;
  std::vector<IndexEntry> entries_;
  GarbageReport& report_;
};

StoreStatus Sweep::RemoveFolder(const fs::path& folder) {
  const uint64_t bytes = BytesBelow(folder);
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) return tl::make_unexpected(StoreError(ErrnoError("remove", folder, error.value())));
  report_.bytes += bytes;
  report_.removed.push_back(folder.string());
  return {};
}

StoreStatus Sweep::OneRepo(const CachedRepo& repo, const IndexEntry& entry) {
  const HubCache& cache = state_.packages.cache();
  for (const CachedRevision& revision : repo.revisions) {
    if (entry.revision && revision.commit == *entry.revision) continue;
    const HubStatus removed = cache.RemoveRevision(repo.id, revision.commit);
    if (!removed) return tl::make_unexpected(StoreError(removed.error()));
    report_.removed.push_back((repo.folder / "snapshots" / revision.commit).string());
    report_.bytes += revision.bytes;
  }
  const HubResult<uint64_t> freed = cache.CollectGarbage(repo.id);
  if (!freed) return tl::make_unexpected(StoreError(freed.error()));
  report_.bytes += *freed;
  return {};
}

StoreStatus Sweep::PackageRepos() {
  SIGHTLINE_ASSIGN_OR_RETURN(const uint64_t trash, state_.packages.cache().CollectTrash());
  report_.bytes += trash;
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<CachedRepo> repos, state_.packages.cache().List());
  for (const CachedRepo& repo : repos) {
    const IndexEntry* entry = Find(repo.id);
    SIGHTLINE_RETURN_IF_ERROR(entry == nullptr ? RemoveFolder(repo.folder) : OneRepo(repo, *entry));
  }
  return {};
}

StoreStatus Sweep::RegistryFolders() {
  std::set<fs::path> used;
  for (const IndexEntry& entry : entries_) {
    if (auto folder = RegistryFolderOf(state_.settings.folders, entry.id, entry.revision)) used.insert(*folder);
  }
  for (const fs::path& host : EntriesOf(state_.settings.folders.images / "oci")) {
    for (const fs::path& repository : EntriesOf(host)) {
      for (const fs::path& digest : EntriesOf(repository)) {
        if (!used.contains(digest)) SIGHTLINE_RETURN_IF_ERROR(RemoveFolder(digest));
      }
      std::error_code still_used;
      fs::remove(repository, still_used);
    }
  }
  return {};
}

StoreStatus Sweep::PulledFolders() {
  std::set<std::string> used;
  for (const IndexEntry& entry : entries_) {
    used.insert(state_.settings.folders.PulledFolder(entry.id).filename().string());
    used.insert(entry.manifest.parent_path().filename().string());
  }
  for (const fs::path& folder : EntriesOf(state_.settings.folders.pulled)) {
    if (!used.contains(folder.filename().string())) SIGHTLINE_RETURN_IF_ERROR(RemoveFolder(folder));
    TemporaryFiles(folder);
  }
  return {};
}

// Of the user's cache, which other programs use too: only what nothing there names.
StoreStatus Sweep::Weights() {
  std::set<std::string> repos;
  for (const IndexEntry& entry : entries_) {
    const Result<Target> target = ParseTarget(entry.id);
    const auto package =
        target ? store_.FindLocal(*target) : StoreResult<LocalPackage>(tl::make_unexpected(StoreError()));
    if (!package) continue;
    for (const WeightsPointer& pointer : WeightsFor(*package, entry.mode)) repos.insert(pointer.repo);
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const uint64_t trash, state_.weights.cache().CollectTrash());
  report_.bytes += trash;
  std::error_code error;
  for (const std::string& repo : repos) {
    if (!fs::exists(state_.weights.cache().root() / CacheFolderName(repo), error)) continue;
    const HubResult<uint64_t> freed = state_.weights.cache().CollectGarbage(repo);
    if (!freed) return tl::make_unexpected(StoreError(freed.error()));
    report_.bytes += *freed;
  }
  return {};
}

StoreStatus Sweep::LoadedImages() {
  for (const ListedPackage& row : store_.List()) {
    if (row.kind != "container" || !row.ready || !row.entry.revision) continue;
    const Result<Target> target = ParseTarget(row.entry.id);
    const StoreResult<LocalPackage> package = store_.FindLocal(*target);
    if (!package || package->image_layout.empty()) continue;
    if (target->kind == TargetKind::kRegistry) {
      SIGHTLINE_RETURN_IF_ERROR(RemoveFolder(package->image_layout));
    } else if (target->kind == TargetKind::kHub) {
      SIGHTLINE_RETURN_IF_ERROR(RemoveFolder(state_.packages.cache().root() / CacheFolderName(row.entry.id)));
    }
  }
  return {};
}

// Of processes that were killed while they imported or exported something.
StoreStatus Sweep::ScratchFolders() {
  std::vector<fs::path> places;
  for (const fs::path& root : {state_.packages.cache().root(), state_.weights.cache().root()}) {
    places.push_back(root);
    for (const fs::path& repository : EntriesOf(root)) {
      if (repository.filename().string().starts_with("models--")) places.push_back(repository);
    }
  }
  std::error_code error;
  if (const fs::path temporary = fs::temp_directory_path(error); !error) places.push_back(temporary);
  for (const fs::path& place : places) {
    for (const fs::path& folder : EntriesOf(place)) {
      if (ScratchFolder::IsLeftOver(folder)) SIGHTLINE_RETURN_IF_ERROR(RemoveFolder(folder));
    }
  }
  return {};
}

// Of processes that were killed while they wrote; those that still run are younger.
void Sweep::TemporaryFiles(const fs::path& folder) {
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const fs::path& file : EntriesOf(folder)) {
    std::error_code error;
    const std::string name = file.filename().string();
    if (!name.starts_with(".sightline-") || !name.ends_with(".tmp")) continue;
    if (fs::last_write_time(file, error) > old || error) continue;
    const uint64_t bytes = fs::file_size(file, error);
    if (!fs::remove(file, error)) continue;
    report_.bytes += bytes;
    report_.removed.push_back(file.string());
  }
}

}  // namespace

StoreResult<GarbageReport> Store::CollectGarbage(bool images, Reporter* reporter) {
  Step step(OrSilent(reporter), "gc", "looking for what nothing refers to");
  SIGHTLINE_ASSIGN_OR_RETURN(const std::optional<FileLock> lock,
                             FileLock::TryTake(state_->LockFile(), FileLock::Kind::kExclusive));
  if (!lock) {
    return tl::make_unexpected(
        StoreError(Error{Code::kBusy, "the store is in use by another process that adds to it; try again later", {}}));
  }
  // What cannot be read might name everything that lies here.
  SIGHTLINE_ASSIGN_OR_RETURN(std::vector<IndexEntry> entries, state_->index.ReadStrictly());
  GarbageReport report;
  Sweep sweep(*this, *state_, std::move(entries), report);
  if (images) SIGHTLINE_RETURN_IF_ERROR(sweep.LoadedImages());
  SIGHTLINE_RETURN_IF_ERROR(sweep.PackageRepos());
  SIGHTLINE_RETURN_IF_ERROR(sweep.RegistryFolders());
  SIGHTLINE_RETURN_IF_ERROR(sweep.PulledFolders());
  SIGHTLINE_RETURN_IF_ERROR(sweep.Weights());
  SIGHTLINE_RETURN_IF_ERROR(sweep.ScratchFolders());
  sweep.TemporaryFiles(state_->settings.folders.root);
  step.Done(DecimalBytes(report.bytes));
  return report;
}

}  // namespace sightline
