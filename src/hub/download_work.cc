#include "hub/download_work.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <map>

#include "hub/cache_lock.h"
#include "hub/for_each_at_once.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

std::map<std::string, uint64_t> Contents(const std::vector<HubFile>& files) {
  std::map<std::string, uint64_t> contents;
  for (const HubFile& file : files) contents[file.digest()] = file.size;
  return contents;
}

bool HasBlob(const RepoFolder& folder, const std::string& digest, uint64_t size) {
  std::error_code error;
  const uint64_t there = fs::file_size(folder.Blob(digest), error);
  return !error && there == size;
}

uint64_t BytesThere(const RepoFolder& folder, const HubFile& file) {
  if (HasBlob(folder, file.digest(), file.size)) return file.size;
  return std::min(file.size, UnfinishedBytes(folder, file.digest()));
}

// Brings one content into the cache and into the snapshot. The lock spans both, so that nobody takes the blob for one
// that nothing uses.
HubStatus DoWork(const HubSession& session, const RepoFolder& folder, const Work& work, ProgressMeter& meter,
                 const std::stop_token& stop) {
  const HubSettings& settings = session.settings();
  const std::string& digest = work.blob.digest;
  const auto disk = [&settings](const Error& error) { return tl::make_unexpected(ErrorOfDisk(error, settings)); };
  if (const Status made = MakeFolders(folder.path() / "blobs"); !made) return disk(made.error());
  auto lock = CacheLock::Take(folder.Lock(digest), stop, [&] {
    meter.OnNote(work.blob.subject.Name() + ": another process is loading it, waiting");
  });
  if (!lock) return disk(lock.error());
  if (HasBlob(folder, digest, work.blob.size)) {
    meter.AddBytes(static_cast<int64_t>(work.blob.size - work.blob.counted), false);
  } else if (const HubStatus loaded = DownloadBlob(session, folder, work.blob, lock->excludes(), meter, stop);
             !loaded) {
    return loaded.error().fault == HubFault::kNone ? disk(loaded.error()) : loaded;
  }
  for (const std::string& path : work.paths) {
    if (const Status put = folder.PutIntoSnapshot(work.blob.commit, path, digest); !put) return disk(put.error());
    meter.AddFile();
  }
  return {};
}

}  // namespace

uint64_t TotalBytes(const std::vector<HubFile>& files) {
  uint64_t bytes = 0;
  for (const auto& [digest, size] : Contents(files)) bytes += size;
  return bytes;
}

uint64_t BytesThere(const RepoFolder& folder, const std::string& commit, const std::vector<HubFile>& files) {
  std::map<std::string, uint64_t> there;
  for (const HubFile& file : files) {
    uint64_t& bytes = there[file.digest()];
    bytes = std::max(bytes, folder.Has(commit, file) ? file.size : BytesThere(folder, file));
  }
  uint64_t bytes = 0;
  for (const auto& [digest, count] : there) bytes += count;
  return bytes;
}

std::vector<Work> WhatIsMissing(const RepoFolder& folder, const std::string& repo, const std::string& commit,
                                const std::vector<HubFile>& files) {
  std::map<std::string, Work> by_digest;
  for (const HubFile& file : files) {
    if (folder.Has(commit, file)) continue;
    Work& work = by_digest[file.digest()];
    work.blob = {{repo, commit, file.path}, commit, file.digest(), file.size, BytesThere(folder, file)};
    work.paths.push_back(file.path);
  }
  std::vector<Work> missing;
  for (auto& [digest, work] : by_digest) missing.push_back(std::move(work));
  // Large ones first, so that the end is not one large file alone.
  std::stable_sort(missing.begin(), missing.end(),
                   [](const Work& a, const Work& b) { return a.blob.size > b.blob.size; });
  return missing;
}

HubStatus CheckSpace(const HubSettings& settings, const HubSubject& subject, uint64_t needed) {
  fs::path folder = settings.cache;
  std::error_code ignored;
  while (!fs::exists(folder, ignored) && folder.has_relative_path()) folder = folder.parent_path();
  struct statvfs disk;
  if (::statvfs(folder.c_str(), &disk) != 0) return {};  // the writing itself will tell
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (needed <= free) return {};
  Error full{Code::kNoSpace,
             fmt::format("{}: {:.1f} MB are to be loaded, and the disk of {} has {:.1f} MB free", subject.Name(),
                         static_cast<double>(needed) / 1e6, settings.cache.string(), static_cast<double>(free) / 1e6),
             {}};
  return tl::make_unexpected(ErrorOfDisk(std::move(full), settings));
}

HubStatus DoAll(const HubSession& session, const RepoFolder& folder, const std::vector<Work>& missing,
                ProgressMeter& meter, const std::stop_token& stop) {
  return ForEachAtOnce(
      missing, session.settings().files_at_once, stop,
      [&](const Work& work, const std::stop_token& ends) { return DoWork(session, folder, work, meter, ends); });
}

}  // namespace sightline
