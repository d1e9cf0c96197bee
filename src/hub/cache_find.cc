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
Result<std::optional<std::string>> CommitOfPrefix(const RepoFolder& folder, const std::string& prefix) {
  std::optional<std::string> found;
  if (prefix.size() < kShortestPrefix || prefix.size() >= 40 || !IsHex(prefix, prefix.size())) return found;
  SIGHTLINE_ASSIGN_OR_RETURN(const auto entries, ListEntries(folder.path() / "snapshots", false));
  for (const fs::directory_entry& entry : entries) {
    const std::string name = entry.path().filename();
    if (!IsCommit(name) || !name.starts_with(prefix)) continue;
    if (found) return std::optional<std::string>();
    found = name;
  }
  return found;
}

HubStatus CheckNames(const std::string& repo, const std::string& revision) {
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(repo));
  return CheckRevision(repo, revision);
}

struct Unfinished {
  int files = 0;
  uint64_t bytes = 0;
};
Result<Unfinished> UnfinishedIn(const RepoFolder& folder) {
  SIGHTLINE_ASSIGN_OR_RETURN(const auto entries, ListEntries(folder.path() / "blobs", false));
  Unfinished found;
  for (const fs::directory_entry& entry : entries) {
    struct stat status;
    if (entry.path().extension() != ".incomplete" || ::lstat(entry.path().c_str(), &status) != 0) continue;
    found.bytes += S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) : 0;
    ++found.files;
  }
  return found;
}

}  // namespace

HubCache::HubCache(fs::path root) : root_(std::move(root)) {}

HubResult<CachedSnapshot> HubCache::Find(const std::string& repo, const std::string& revision) const {
  SIGHTLINE_RETURN_IF_ERROR(CheckNames(repo, revision));
  const RepoFolder folder(root_, repo);
  std::optional<std::string> commit = IsCommit(revision) ? revision : folder.ReadRef(revision);
  if (!commit) {
    SIGHTLINE_ASSIGN_OR_RETURN(commit, CommitOfPrefix(folder, revision));
  }
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
    SIGHTLINE_ASSIGN_OR_RETURN(const Unfinished unfinished, UnfinishedIn(folder));
    if (unfinished.files > 0) return incomplete("a download of this repository was not finished");
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
  const auto unfinished = UnfinishedIn(RepoFolder(root_, repo));
  const auto snapshot = Find(repo, revision);
  return (unfinished ? unfinished->bytes : 0) + (snapshot ? BytesBelow(snapshot->folder).value_or(0) : 0);
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
  SIGHTLINE_ASSIGN_OR_RETURN(const Unfinished unfinished, UnfinishedIn(folder));
  found.unfinished_bytes = unfinished.bytes;
  SIGHTLINE_ASSIGN_OR_RETURN(const auto snapshots, ListEntries(folder.path() / "snapshots", false));
  for (const fs::directory_entry& snapshot : snapshots) {
    CachedRevision revision{snapshot.path().filename(), {}, 0, 0};
    SIGHTLINE_ASSIGN_OR_RETURN(revision.bytes, BytesBelow(snapshot.path()));
    SIGHTLINE_ASSIGN_OR_RETURN(const auto files, ListEntries(snapshot.path(), true));
    std::error_code gone;
    for (const fs::directory_entry& file : files) revision.files += file.is_directory(gone) ? 0 : 1;
    found.revisions.push_back(std::move(revision));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(found.bytes, BytesBelow(folder.path() / "snapshots"));
  SIGHTLINE_ASSIGN_OR_RETURN(const auto refs, ListEntries(folder.path() / "refs", true));
  for (const fs::directory_entry& ref : refs) {
    const std::string name = ref.path().lexically_relative(folder.path() / "refs");
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
  SIGHTLINE_ASSIGN_OR_RETURN(const auto entries, ListEntries(root_, false));
  for (const fs::directory_entry& entry : entries) {
    const std::optional<std::string> id = RepoOfCacheFolder(entry.path().filename().string());
    if (!id) continue;  // of another program
    auto repo = Describe(*id);
    if (repo) repos.push_back(std::move(*repo));
    if (!repo && repo.error().fault != HubFault::kNoRevision) return tl::make_unexpected(repo.error());
  }
  std::sort(repos.begin(), repos.end(), [](const CachedRepo& a, const CachedRepo& b) { return a.id < b.id; });
  return repos;
}

}  // namespace sightline
