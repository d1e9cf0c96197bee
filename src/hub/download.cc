#include <algorithm>

#include "hub/download_work.h"
#include "hub/names.h"
#include "hub/state.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

bool MayBeAnsweredFromCache(const HubError& error) {
  return error.fault == HubFault::kUnreachable || error.fault == HubFault::kRateLimited;
}

std::vector<HubFile> SelectFiles(std::vector<HubFile> files, const HubPatterns& patterns) {
  std::erase_if(files, [&patterns](const HubFile& file) { return !patterns.Select(file.path); });
  return files;
}

HubStatus WriteRefs(const RepoFolder& folder, const HubSettings& settings, const HubDownload& download,
                    const std::string& commit) {
  Status written;
  if (!IsCommit(download.revision)) written = folder.WriteRef(download.revision, commit);
  if (written && download.ensure_main_ref) {
    const HubCache cache(settings.cache);
    SIGHTLINE_RETURN_IF_ERROR(cache.EnsureMainRef(download.repo, commit));
  }
  if (!written) return tl::make_unexpected(ErrorOfDisk(written.error(), settings));
  return {};
}

struct Plan {
  std::string commit;
  std::vector<HubFile> files{};   // selected
  std::vector<HubFile> listed{};  // the commit's whole list, when the cache did not have it
  uint64_t bytes_total = 0;       // each content once
  uint64_t bytes_there = 0;
};

HubResult<Plan> MakePlan(Hub& hub, const HubDownload& download, const std::stop_token& stop) {
  SIGHTLINE_ASSIGN_OR_RETURN(std::string commit, hub.ResolveRevision(download.repo, download.revision, stop));
  const RepoFolder folder(hub.settings().cache, download.repo);
  Plan plan{std::move(commit)};
  auto files = folder.ReadTree(plan.commit);
  if (!files) {
    SIGHTLINE_ASSIGN_OR_RETURN(files, hub.Tree(download.repo, plan.commit, stop));
    plan.listed = *files;
  }
  plan.files = SelectFiles(std::move(*files), download.patterns);
  plan.bytes_total = TotalBytes(plan.files);
  plan.bytes_there = BytesThere(folder, plan.commit, plan.files);
  return plan;
}

}  // namespace

HubResult<CachedSnapshot> Hub::Download(const HubDownload& download, HubProgressSink* progress, std::stop_token stop) {
  const HubSettings& settings = state_->session.settings();
  const HubSubject subject{download.repo, download.revision, {}};
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(download.repo));
  SIGHTLINE_RETURN_IF_ERROR(CheckRevision(download.repo, download.revision));
  ProgressMeter meter(progress);
  meter.Begin(HubPhase::kListing, 0, 0, 0, 0);
  if (settings.offline) {
    auto cached = state_->cache.FindComplete(download.repo, download.revision, download.patterns);
    if (!cached && cached.error().fault == HubFault::kNoRevision) return tl::make_unexpected(OfflineError(subject));
    return cached;
  }
  auto plan = MakePlan(*this, download, stop);
  // What is pinned by commit is the same whatever the hub thinks of this user or has done with the repository since.
  const bool pinned = IsCommit(download.revision);
  if (!plan && (MayBeAnsweredFromCache(plan.error()) || (pinned && plan.error().fault != HubFault::kNone))) {
    auto cached = state_->cache.FindComplete(download.repo, download.revision, download.patterns);
    if (cached) meter.OnNote(plan.error().message + "; what is on this machine is used");
    if (cached) return cached;
  }
  if (!plan) return tl::make_unexpected(std::move(plan).error());
  const RepoFolder folder = state_->Folder(download.repo);
  CachedSnapshot snapshot{folder.Snapshot(plan->commit), plan->commit, false, true, plan->bytes_total};
  const std::vector<Work> missing = WhatIsMissing(folder, download.repo, plan->commit, plan->files);
  size_t files_missing = 0;
  for (const Work& work : missing) files_missing += work.paths.size();
  meter.Begin(HubPhase::kDownloading, plan->bytes_there, plan->bytes_total,
              static_cast<int>(plan->files.size() - files_missing), static_cast<int>(plan->files.size()));
  const auto remember_list = [&] {  // only a note for the next time; the cache may be read-only
    if (!plan->listed.empty()) static_cast<void>(folder.WriteTree(plan->commit, plan->listed));
  };
  std::error_code ignored;
  if (missing.empty() && fs::is_directory(snapshot.folder, ignored)) {
    remember_list();
    static_cast<void>(WriteRefs(folder, settings, download, plan->commit));  // the cache may be read-only
    return snapshot;
  }
  SIGHTLINE_RETURN_IF_ERROR(CheckSpace(settings, subject, plan->bytes_total - plan->bytes_there));
  if (const Status made = MakeFolders(snapshot.folder); !made) {
    return tl::make_unexpected(ErrorOfDisk(made.error(), settings));
  }
  folder.MarkCache();
  remember_list();
  SIGHTLINE_RETURN_IF_ERROR(DoAll(state_->session, folder, missing, meter, stop));
  SIGHTLINE_RETURN_IF_ERROR(WriteRefs(folder, settings, download, plan->commit));
  snapshot.fetched = !missing.empty();
  return snapshot;
}

HubResult<fs::path> Hub::Fetch(const std::string& repo, const std::string& revision, const std::string& path,
                               HubProgressSink* progress, std::stop_token stop) {
  const HubSettings& settings = state_->session.settings();
  const HubSubject subject{repo, revision, path};
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(repo));
  SIGHTLINE_RETURN_IF_ERROR(CheckRevision(repo, revision));
  SIGHTLINE_RETURN_IF_ERROR(CheckHubPath(path));
  auto cached = state_->cache.FindFile(repo, revision, path);
  if (cached && IsCommit(revision)) return cached;
  if (settings.offline) {
    if (!cached && cached.error().fault == HubFault::kNoRevision) return tl::make_unexpected(OfflineError(subject));
    return cached;
  }
  ProgressMeter meter(progress);
  const RepoFolder folder = state_->Folder(repo);
  std::string absent_in;
  auto entry = ResolveEntry(state_->session, subject, &meter, stop, &absent_in);
  if (!entry && cached && MayBeAnsweredFromCache(entry.error())) return cached;
  if (!entry && IsCommit(absent_in) && folder.exists()) static_cast<void>(folder.RememberAbsent(absent_in, path));
  if (!entry) return tl::make_unexpected(std::move(entry).error());
  const HubFile file{path, entry->size, entry->digest, entry->digest.size() == 64 ? entry->digest : ""};
  const std::vector<HubFile> files{file};
  const uint64_t there = BytesThere(folder, entry->commit, files);
  const std::vector<Work> missing = WhatIsMissing(folder, repo, entry->commit, files);
  meter.Begin(HubPhase::kDownloading, there, file.size, missing.empty() ? 1 : 0, 1);
  const HubDownload as_download{repo, revision, {}, false};
  if (missing.empty()) {
    static_cast<void>(WriteRefs(folder, settings, as_download, entry->commit));
    return folder.Pointer(entry->commit, path);
  }
  SIGHTLINE_RETURN_IF_ERROR(CheckSpace(settings, subject, file.size - there));
  if (const Status made = MakeFolders(folder.Snapshot(entry->commit)); !made) {
    return tl::make_unexpected(ErrorOfDisk(made.error(), settings));
  }
  folder.MarkCache();
  SIGHTLINE_RETURN_IF_ERROR(DoAll(state_->session, folder, missing, meter, stop));
  SIGHTLINE_RETURN_IF_ERROR(WriteRefs(folder, settings, as_download, entry->commit));
  return folder.Pointer(entry->commit, path);
}

}  // namespace sightline
