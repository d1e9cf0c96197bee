// What of a package may be running, for stop and logs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/launcher_state.h"

namespace sightline {

// Names of the containers that a package may have, the default profile's first. kNotFound for a profile that it has
// not.
StoreResult<std::vector<std::string>> CandidateContainers(const LocalPackage& package,
                                                          const std::optional<std::string>& profile);

// Whether a --profile means a native server, a container, or (none given) either.
inline bool WantsNative(const std::optional<std::string>& profile) { return !profile || *profile == kNativeProfile; }
inline bool WantsContainer(const std::optional<std::string>& profile) { return !profile || *profile != kNativeProfile; }

// What a native server of a target is called, also where the package is not here any more.
std::string NativeName(const std::string& target, const StoreResult<FoundPackage>& found);

}  // namespace sightline
