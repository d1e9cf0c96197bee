// Weights that were downloaded from the hub to this machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "hub/hub.h"

namespace sightline {

// The snapshot of `revision` in the hub's cache, else the one that refs/main names.
std::optional<CachedSnapshot> FindHubSnapshot(const std::string& repo, const std::string& revision = "main");

struct SnapshotName {
  std::string repo, commit;
};
// What a folder is a snapshot of, by its place in a cache of the hub: models--OWNER--NAME/snapshots/COMMIT. Nothing for
// other folders.
std::optional<SnapshotName> SnapshotNameOf(const std::filesystem::path& folder);

}  // namespace sightline
