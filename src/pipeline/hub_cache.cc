#include "pipeline/hub_cache.h"

namespace sightline {

std::optional<CachedSnapshot> FindHubSnapshot(const std::string& repo, const std::string& revision) {
  const auto folder = HubCacheFromEnvironment();
  if (!folder) return std::nullopt;
  const HubCache cache(*folder);
  auto found = cache.Find(repo, revision);
  if (!found) found = cache.Find(repo);
  return found ? std::optional(*std::move(found)) : std::nullopt;
}

std::optional<SnapshotName> SnapshotNameOf(const std::filesystem::path& folder) {
  const std::filesystem::path path = (folder / "").lexically_normal().parent_path(), snapshots = path.parent_path();
  if (snapshots.filename() != "snapshots") return std::nullopt;
  auto repo = RepoOfCacheFolder(snapshots.parent_path().filename().string());
  return repo ? std::optional(SnapshotName{*std::move(repo), path.filename().string()}) : std::nullopt;
}

}  // namespace sightline
