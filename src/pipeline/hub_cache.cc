#include "pipeline/hub_cache.h"

#include <fmt/format.h>

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
  constexpr std::string_view kPrefix = "models--", kBetween = "--";
  const std::filesystem::path path = (folder / "").lexically_normal().parent_path(), snapshots = path.parent_path();
  const std::string cached = snapshots.parent_path().filename().string();
  if (snapshots.filename() != "snapshots" || !cached.starts_with(kPrefix)) return std::nullopt;
  const size_t between = cached.find(kBetween, kPrefix.size());
  if (between == std::string::npos) return std::nullopt;
  return SnapshotName{fmt::format("{}/{}", cached.substr(kPrefix.size(), between - kPrefix.size()),
                                  cached.substr(between + kBetween.size())),
                      path.filename().string()};
}

}  // namespace sightline
