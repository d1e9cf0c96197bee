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

}  // namespace sightline
