#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "hub/faults.h"
#include "hub/names.h"
#include "hub/repo_folder.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

constexpr size_t kShortestPrefix = 4;

bool IsFolder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

HubError NotHere(const HubSubject& subject) {
  return MakeHubError(HubFault::kNoRevision, Code::kNotFound, subject, "this revision is not on this machine",
                      "pull it first");
}

// The one snapshot whose commit begins so.
std::optional<std::string> CommitOfPrefix(const RepoFolder& folder, const std::string& prefix) {
  if (prefix.size() < kShortestPrefix || prefix.size() >= 40 || !IsHex(prefix, prefix.size())) return std::nullopt;
  std::optional<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder.path() / "snapshots", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!IsCommit(name) || !name.starts_with(prefix)) continue;
    if (found) return std::nullopt;
    found = name;
  }
  return found;
}

HubStatus CheckNames(const std::string& repo, const std::string& revision) {
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(repo));
  return CheckRevision(repo, revision);
}

// Sizes of what a folder's files are in the end, each once however many links lead there.
uint64_t BytesBelow(const fs::path& folder) {
  std::set<std::pair<dev_t, ino_t>> seen;
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    struct stat status;
    if (::stat(entry->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (seen.emplace(status.st_dev, status.st_ino).second) bytes += static_cast<uint64_t>(status.st_size);
  }
  return bytes;
}

// Names and sizes of unfinished downloads.
uint64_t UnfinishedIn(const RepoFolder& folder, int* count) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder.path() / "blobs", error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat status;
    if (entry->path().extension() != ".incomplete" || ::lstat(entry->path().c_str(), &status) != 0) continue;
    bytes += S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) : 0;
    ++*count;
  }
  return bytes;
}

}  // namespace

HubCache::HubCache(fs::path root) : root_(std::move(root)) {}

HubResult<CachedSnapshot> HubCache::Find(const std::string& repo, const std::string& revision) const {
  SIGHTLINE_RETURN_IF_ERROR(CheckNames(repo, revision));
  const RepoFolder folder(root_, repo);
  std::optional<std::string> commit = IsCommit(revision) ? revision : folder.ReadRef(revision);
  if (!commit) commit = CommitOfPrefix(folder, revision);
  if (!commit || !IsFolder(folder.Snapshot(*commit))) return tl::make_unexpected(NotHere({repo, revision, {}}));
  return CachedSnapshot{folder.Snapshot(*commit), *commit};
}

HubResult<CachedSnapshot> HubCache::FindComplete(const std::string& repo, const std::string& revision,
                                                 const HubPatterns& patterns) const {
  SIGHTLINE_ASSIGN_OR_RETURN(CachedSnapshot snapshot, Find(repo, revision));
  const RepoFolder folder(root_, repo);
  const auto incomplete = [&](const std::string& what) {
    return tl::make_unexpected(MakeHubError(HubFault::kIncomplete, Code::kNotFound, {repo, revision, {}}, what,
                                            "pull it again with a network; what is there is kept"));
  };
  const auto files = folder.ReadTree(snapshot.commit);
  if (!files) {
    if (HasUnfinished(repo)) return incomplete("a download of this repository was not finished");
    return snapshot;
  }
  std::set<std::string_view> counted;
  for (const HubFile& file : *files) {
    if (!patterns.Select(file.path)) continue;
    if (!folder.Has(snapshot.commit, file)) {
      return incomplete(fmt::format("only a part is on this machine; {} is missing", file.path));
    }
    if (counted.insert(file.digest()).second) snapshot.bytes += file.size;
  }
  return snapshot;
}

HubResult<fs::path> HubCache::FindFile(const std::string& repo, const std::string& revision,
                                       const std::string& path) const {
  SIGHTLINE_RETURN_IF_ERROR(CheckNames(repo, revision));
  SIGHTLINE_RETURN_IF_ERROR(CheckHubPath(path));
  const RepoFolder folder(root_, repo);
  const auto no_entry = [&](const std::string& what) {
    return tl::make_unexpected(MakeHubError(HubFault::kNoEntry, Code::kNotFound, {repo, revision, {}}, what, ""));
  };
  const std::optional<std::string> commit = IsCommit(revision) ? revision : folder.ReadRef(revision);
  if (commit && folder.IsKnownAbsent(*commit, path)) return no_entry(fmt::format("there is no file '{}'", path));
  SIGHTLINE_ASSIGN_OR_RETURN(const CachedSnapshot snapshot, Find(repo, revision));
  fs::path file = snapshot.folder / path;
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return no_entry(fmt::format("the file '{}' is not on this machine", path));
  return file;
}

uint64_t HubCache::BytesThere(const std::string& repo, const std::string& revision) const {
  if (!CheckNames(repo, revision)) return 0;
  int count = 0;
  const uint64_t unfinished = UnfinishedIn(RepoFolder(root_, repo), &count);
  const auto snapshot = Find(repo, revision);
  return unfinished + (snapshot ? BytesBelow(snapshot->folder) : 0);
}

bool HubCache::HasUnfinished(const std::string& repo) const {
  int count = 0;
  if (CheckRepoId(repo)) UnfinishedIn(RepoFolder(root_, repo), &count);
  return count > 0;
}

HubResult<bool> HubCache::EnsureMainRef(const std::string& repo, const std::string& commit) const {
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(repo));
  const RepoFolder folder(root_, repo);
  std::error_code ignored;
  if (!IsCommit(commit) || fs::exists(folder.Ref("main"), ignored)) return false;
  SIGHTLINE_RETURN_IF_ERROR(folder.WriteRef("main", commit));
  return true;
}

HubResult<CachedRepo> HubCache::Describe(const std::string& repo) const {
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(repo));
  const RepoFolder folder(root_, repo);
  if (!folder.exists()) return tl::make_unexpected(NotHere({repo, {}, {}}));
  CachedRepo found{repo, folder.path(), {}, 0, 0, {}};
  int unfinished = 0;
  found.unfinished_bytes = UnfinishedIn(folder, &unfinished);
  std::error_code error;
  for (fs::directory_iterator entry(folder.path() / "snapshots", error), end; !error && entry != end;
       entry.increment(error)) {
    CachedRevision revision{entry->path().filename(), {}, 0, BytesBelow(entry->path())};
    std::error_code inner;
    for (fs::recursive_directory_iterator file(entry->path(), inner), last; !inner && file != last;
         file.increment(inner)) {
      revision.files += file->is_directory(inner) ? 0 : 1;
    }
    found.revisions.push_back(std::move(revision));
  }
  found.bytes = BytesBelow(folder.path() / "snapshots");
  for (fs::recursive_directory_iterator ref(folder.path() / "refs", error), end; !error && ref != end;
       ref.increment(error)) {
    const std::string name = fs::relative(ref->path(), folder.path() / "refs", error);
    const auto commit = folder.ReadRef(name);
    for (CachedRevision& revision : found.revisions) {
      if (commit == revision.commit) revision.refs.push_back(name);
    }
  }
  struct stat status;
  for (const char* part : {"blobs", "snapshots"}) {
    if (::stat((folder.path() / part).c_str(), &status) != 0) continue;
    found.modified = std::max(found.modified, std::chrono::system_clock::from_time_t(status.st_mtime));
  }
  return found;
}

Result<std::vector<CachedRepo>> HubCache::List() const {
  std::vector<CachedRepo> repos;
  std::error_code error;
  for (fs::directory_iterator entry(root_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with("models--")) continue;
    const size_t dashes = name.find("--", 8);
    if (dashes == std::string::npos) continue;
    const std::string id = name.substr(8, dashes - 8) + '/' + name.substr(dashes + 2);
    if (auto repo = Describe(id)) repos.push_back(std::move(*repo));
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return tl::make_unexpected(ErrnoError("read", root_, error.value()));
  }
  std::sort(repos.begin(), repos.end(), [](const CachedRepo& a, const CachedRepo& b) { return a.id < b.id; });
  return repos;
}

}  // namespace sightline
