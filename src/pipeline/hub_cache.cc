#include "pipeline/hub_cache.h"

#include <cstdlib>
#include <fstream>

namespace sightline {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> HubCache() {
  if (const char* folder = std::getenv("HF_HUB_CACHE")) return folder;
  if (const char* home = std::getenv("HF_HOME")) return fs::path(home) / "hub";
  if (const char* home = std::getenv("HOME")) return fs::path(home) / ".cache" / "huggingface" / "hub";
  return std::nullopt;
}

// huggingface_hub, file_download.py, repo_folder_name.
std::string FolderName(std::string_view repo) {
  std::string name = "models--";
  for (const char c : repo) name += c == '/' ? "--" : std::string(1, c);
  return name;
}

}  // namespace

std::optional<HubSnapshot> FindHubSnapshot(std::string_view repo, std::string_view revision) {
  const auto cache = HubCache();
  if (!cache) return std::nullopt;
  const fs::path folder = *cache / FolderName(repo);
  HubSnapshot snapshot{{}, std::string(revision)};
  std::error_code error;
  if (snapshot.revision.empty() || !fs::is_directory(folder / "snapshots" / snapshot.revision, error)) {
    snapshot.revision.clear();
    std::ifstream(folder / "refs" / "main") >> snapshot.revision;
  }
  snapshot.folder = folder / "snapshots" / snapshot.revision;
  if (snapshot.revision.empty() || !fs::is_directory(snapshot.folder, error)) return std::nullopt;
  return snapshot;
}

}  // namespace sightline
