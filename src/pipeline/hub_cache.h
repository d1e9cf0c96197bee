// Downloads of huggingface_hub on this machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace sightline {

struct HubSnapshot {
  std::filesystem::path folder;
  std::string revision;
};

// The snapshot of `repo` ("owner/name") in HF_HUB_CACHE, HF_HOME/hub or ~/.cache/huggingface/hub: that of `revision`,
// else the one that refs/main names.
std::optional<HubSnapshot> FindHubSnapshot(std::string_view repo, std::string_view revision = {});

}  // namespace sightline
