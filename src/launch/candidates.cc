#include "launch/candidates.h"

namespace sightline {

StoreResult<std::vector<std::string>> CandidateContainers(const LocalPackage& package,
                                                          const std::optional<std::string>& profile) {
  std::vector<std::string> names;
  if (!package.manifest.container) return names;
  const WireContainer& container = *package.manifest.container;
  if (profile) {
    SIGHTLINE_ASSIGN_OR_RETURN(const ServeProfile found, container.ResolveProfile(profile));
    return std::vector{ContainerName(package.manifest.name, found.name)};
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string default_name, container.DefaultProfileName());
  names.push_back(ContainerName(package.manifest.name, default_name));
  for (const std::string& name : container.ProfileNames()) {
    if (name != default_name) names.push_back(ContainerName(package.manifest.name, name));
  }
  return names;
}

std::string NativeName(const std::string& target, const StoreResult<FoundPackage>& found) {
  if (found) return NativeNameOf(*found);
  const auto parsed = ParseTarget(target);
  return NativeServers::NameOf(parsed ? parsed->id : target);
}

}  // namespace sightline
