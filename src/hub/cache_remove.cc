#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <set>

#include "hub/cache_lock.h"
#include "hub/faults.h"
#include "hub/names.h"
#include "hub/repo_folder.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

// Names of the blobs that some snapshot links to.
std::set<std::string> UsedBlobs(const RepoFolder& folder) {
  std::set<std::string> used;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder.path() / "snapshots", error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code inner;
    const fs::path target = fs::read_symlink(entry->path(), inner);
    if (!inner) used.insert(target.filename());
  }
  return used;
}

std::vector<fs::path> EntriesOf(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    entries.push_back(entry->path());
  }
  return entries;
}

uint64_t Unlink(const fs::path& path) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0 || ::unlink(path.c_str()) != 0) return 0;
  return S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) : 0;
}

// Under the lock that a download holds from before the blob is there until after its link is.
uint64_t RemoveUnused(const RepoFolder& folder, const fs::path& blob) {
  const std::string name = blob.filename(), digest = name.substr(0, name.find('.'));
  if (!IsBlobName(digest)) return 0;
  if (!MakeFolders(folder.Lock(digest).parent_path())) return 0;
  const auto lock = CacheLock::Try(folder.Lock(digest));
  if (!lock || !*lock) return 0;
  return blob.extension() != ".incomplete" && UsedBlobs(folder).contains(name) ? 0 : Unlink(blob);
}

// ".sightline-<process>-<count>.tmp" of a process that still runs is its own business.
bool IsLeftover(const std::string& name) {
  if (!name.starts_with(kTemporaryPrefix) || !name.ends_with(".tmp")) return false;
  const int process = std::atoi(name.c_str() + kTemporaryPrefix.size());
  return process <= 0 || (::kill(process, 0) != 0 && errno == ESRCH);
}

Status RemoveAll(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return tl::make_unexpected(ErrnoError("remove", path, error.value()));
  return {};
}

void RemoveRefsTo(const RepoFolder& folder, const std::string& commit) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder.path() / "refs", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().lexically_relative(folder.path() / "refs");
    if (folder.ReadRef(name) == commit) ::unlink(entry->path().c_str());
  }
}

}  // namespace

HubResult<bool> HubCache::Remove(const std::string& repo) const {
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(repo));
  const RepoFolder folder(root_, repo);
  if (!folder.exists()) return false;
  // Out of sight in one step, so that a kill in between leaves no half repository.
  const fs::path trash =
      root_ / (std::string(kTemporaryPrefix) + std::to_string(::getpid()) + "-" + folder.path().filename().string());
  SIGHTLINE_RETURN_IF_ERROR(RemoveAll(trash));
  if (::rename(folder.path().c_str(), trash.c_str()) != 0) {
    return tl::make_unexpected(HubError(ErrnoError("remove", folder.path(), errno)));
  }
  SIGHTLINE_RETURN_IF_ERROR(RemoveAll(trash));
  SIGHTLINE_RETURN_IF_ERROR(RemoveAll(root_ / ".locks" / folder.path().filename()));
  return true;
}

HubStatus HubCache::RemoveRevision(const std::string& repo, const std::string& commit) const {
  SIGHTLINE_ASSIGN_OR_RETURN(const CachedSnapshot snapshot, Find(repo, commit));
  const RepoFolder folder(root_, repo);
  std::set<std::string> candidates;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(snapshot.folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code inner;
    const fs::path target = fs::read_symlink(entry->path(), inner);
    if (!inner) candidates.insert(target.filename());
  }
  RemoveRefsTo(folder, snapshot.commit);
  SIGHTLINE_RETURN_IF_ERROR(RemoveAll(snapshot.folder));
  SIGHTLINE_RETURN_IF_ERROR(RemoveAll(folder.path() / ".no_exist" / snapshot.commit));
  ::unlink((folder.path() / "trees" / (snapshot.commit + ".json")).c_str());
  for (const std::string& name : candidates) RemoveUnused(folder, folder.path() / "blobs" / name);
  return {};
}

HubResult<uint64_t> HubCache::CollectGarbage(const std::string& repo) const {
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(repo));
  const RepoFolder folder(root_, repo);
  uint64_t freed = 0;
  for (const fs::path& blob : EntriesOf(folder.path() / "blobs")) freed += RemoveUnused(folder, blob);
  for (const fs::path& entry : EntriesOf(folder.path())) {
    if (IsLeftover(entry.filename().string())) freed += Unlink(entry);
  }
  return freed;
}

}  // namespace sightline
