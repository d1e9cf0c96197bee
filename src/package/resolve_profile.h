// Choosing a profile, which both manifests do alike.
#pragma once

#include <string>
#include <vector>

#include "package/package.h"

namespace sightline {

// The profile named `wanted`, merged over `serve`; kNotFound lists the names there are.
Result<ServeProfile> ResolveAmong(const ServeSettings& serve, const std::vector<ServeProfile>& profiles,
                                  const std::string& wanted);

}  // namespace sightline
