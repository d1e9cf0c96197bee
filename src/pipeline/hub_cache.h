// Weights that were downloaded from the hub to this machine.
#pragma once

#include <optional>
#include <string>

#include "hub/hub.h"

namespace sightline {

// The snapshot of `revision` in the hub's cache, else the one that refs/main names.
std::optional<CachedSnapshot> FindHubSnapshot(const std::string& repo, const std::string& revision = "main");

}  // namespace sightline
