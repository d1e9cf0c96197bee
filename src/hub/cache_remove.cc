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

// Names of the blobs that the links below a folder lead to.
Result<std::set<std::string>> BlobsLinkedFrom(const fs::path& folder) {
  SIGHTLINE_ASSIGN_OR_RETURN(const auto entries, ListEntries(folder, true));
  std::set<std::string> blobs;
  for (const fs::directory_entry& entry : entries) {
    std::error_code no_link;
    const fs::path target = fs::read_symlink(entry.path(), no_link);
    if (!no_link) blobs.insert(target.filename());
  }
  return blobs;
}

// The bytes that are free now.
Result<uint64_t> Unlink(const fs::path& path) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0 || ::unlink(path.c_str()) != 0) {
    if (errno == ENOENT) return 0;  // another process was faster
    return tl::make_unexpected(ErrnoError("remove", path, errno));
  }
  return S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) : 0;
}

// `held` is the lock of this blob, which a download holds from before the blob is there until after its link is: only
// who holds it alone may take a blob without a link for an unused one.
Result<uint64_t> RemoveUnused(const RepoFolder& folder, const fs::path& blob, const CacheLock& held) {
  if (!held.excludes()) return 0;
  SIGHTLINE_ASSIGN_OR_RETURN(const auto used, BlobsLinkedFrom(folder.path() / "snapshots"));
  return used.contains(blob.filename()) ? 0 : Unlink(blob);
}

// The same for whoever may hold the lock; what another process works on stays.
Result<uint64_t> RemoveUnused(const RepoFolder& folder, const fs::path& blob) {
  const std::string name = blob.filename(), digest = name.substr(0, name.find('.'));
  if (!IsBlobName(digest)) return 0;
  SIGHTLINE_RETURN_IF_ERROR(MakeFolders(folder.Lock(digest).parent_path()));
  SIGHTLINE_ASSIGN_OR_RETURN(const auto lock, CacheLock::Try(folder.Lock(digest)));
  return lock ? RemoveUnused(folder, blob, *lock) : 0;
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

Status RemoveRefsTo(const RepoFolder& folder, const std::string& commit) {
  SIGHTLINE_ASSIGN_OR_RETURN(const auto entries, ListEntries(folder.path() / "refs", true));
  for (const fs::directory_entry& entry : entries) {
    const std::string name = entry.path().lexically_relative(folder.path() / "refs");
    if (folder.ReadRef(name) == commit) ::unlink(entry.path().c_str());
  }
  return {};
}

// What Remove has put out of sight and was killed before it was gone.
bool IsTrash(const std::string& name) {
  return name.starts_with(kTemporaryPrefix) && name.find("-models--") != std::string::npos;
}

}  // namespace

HubResult<bool> HubCache::Remove(const std::string& repo) const {
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(repo));
  const RepoFolder folder(root_, repo);
  if (!folder.exists()) {
    SIGHTLINE_RETURN_IF_ERROR(CollectTrash());
    return false;
  }
  // Out of sight in one step, so that a kill in between leaves no half repository.
  const fs::path trash =
      root_ / (std::string(kTemporaryPrefix) + std::to_string(::getpid()) + "-" + folder.path().filename().string());
  SIGHTLINE_RETURN_IF_ERROR(RemoveAll(trash));  // of a process that had our number and was killed
  if (::rename(folder.path().c_str(), trash.c_str()) != 0) {
    return tl::make_unexpected(HubError(ErrnoError("remove", folder.path(), errno)));
  }
  SIGHTLINE_RETURN_IF_ERROR(RemoveAll(root_ / ".locks" / folder.path().filename()));
  SIGHTLINE_RETURN_IF_ERROR(CollectTrash());
  return true;
}

HubStatus HubCache::RemoveRevision(const std::string& repo, const std::string& commit) const {
  SIGHTLINE_ASSIGN_OR_RETURN(const CachedSnapshot snapshot, Find(repo, commit));
  const RepoFolder folder(root_, repo);
  SIGHTLINE_ASSIGN_OR_RETURN(const std::set<std::string> candidates, BlobsLinkedFrom(snapshot.folder));
  SIGHTLINE_RETURN_IF_ERROR(RemoveRefsTo(folder, snapshot.commit));
  SIGHTLINE_RETURN_IF_ERROR(RemoveAll(snapshot.folder));
  SIGHTLINE_RETURN_IF_ERROR(RemoveAll(folder.path() / ".no_exist" / snapshot.commit));
  ::unlink((folder.path() / "trees" / (snapshot.commit + ".json")).c_str());
  for (const std::string& name : candidates) {
    SIGHTLINE_RETURN_IF_ERROR(RemoveUnused(folder, folder.path() / "blobs" / name));
  }
  return {};
}

HubResult<uint64_t> HubCache::CollectTrash() const {
  SIGHTLINE_ASSIGN_OR_RETURN(const auto entries, ListEntries(root_, false));
  uint64_t freed = 0;
  for (const fs::directory_entry& entry : entries) {
    if (!IsTrash(entry.path().filename())) continue;
    SIGHTLINE_ASSIGN_OR_RETURN(const uint64_t bytes, BytesBelow(entry.path()));
    SIGHTLINE_RETURN_IF_ERROR(RemoveAll(entry.path()));  // the process that began it may be at it: nobody misses it
    freed += bytes;
  }
  return freed;
}

HubResult<uint64_t> HubCache::CollectGarbage(const std::string& repo) const {
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(repo));
  const RepoFolder folder(root_, repo);
  SIGHTLINE_ASSIGN_OR_RETURN(uint64_t freed, CollectTrash());
  SIGHTLINE_ASSIGN_OR_RETURN(const auto blobs, ListEntries(folder.path() / "blobs", false));
  for (const fs::directory_entry& blob : blobs) {
    SIGHTLINE_ASSIGN_OR_RETURN(const uint64_t bytes, RemoveUnused(folder, blob.path()));
    freed += bytes;
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const auto entries, ListEntries(folder.path(), false));
  for (const fs::directory_entry& entry : entries) {
    if (!IsLeftover(entry.path().filename())) continue;
    SIGHTLINE_ASSIGN_OR_RETURN(const uint64_t bytes, Unlink(entry.path()));
    freed += bytes;
  }
  return freed;
}

}  // namespace sightline
