#include <cstdlib>
#include <system_error>

#include "store/store.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// tt-kernel is what tt-model was called; who has only that folder goes on with it.
fs::path RootIn(const fs::path& cache) {
  const fs::path current = cache / "tt-model", legacy = cache / "tt-kernel";
  return !Exists(current) && Exists(legacy) ? legacy : current;
}

std::string FolderName(const std::string& id) {
  std::string name;
  for (const char c : id) {
    if (c == '/') {
      name += "__";
    } else {
      name += c;
    }
  }
  return name;
}

}  // namespace

fs::path StoreFolders::PackageCache(const std::string& name) const {
  SIGHTLINE_CHECK(IsSlug(name));
  if (!older.empty() && !Exists(root / name) && Exists(older / name)) return older / name;
  return root / name;
}

fs::path StoreFolders::BuildLog(const std::string& name) const {
  SIGHTLINE_CHECK(IsSlug(name));
  return root / "build" / (name + ".log");
}

fs::path StoreFolders::PulledFolder(const std::string& id) const {
  const std::string name = FolderName(id);
  if (!older.empty() && !Exists(pulled / name) && Exists(older / "pulled" / name)) return older / "pulled" / name;
  return pulled / name;
}

Result<StoreFolders> StoreFoldersFromEnvironment() {
  const std::string home = EnvironmentVariable("HOME");
  fs::path cache = EnvironmentVariable("XDG_CACHE_HOME");
  if (!cache.is_absolute()) cache = fs::path();  // the XDG specification has relative values ignored
  if (cache.empty() && home.empty()) {
    return Fail(Code::kUsage, "cache folder: none is known, expected XDG_CACHE_HOME or HOME to be set");
  }
  StoreFolders folders;
  const fs::path usual = home.empty() ? fs::path() : fs::path(home) / ".cache";
  folders.root = RootIn(cache.empty() ? usual : cache);
  if (!cache.empty() && !usual.empty() && RootIn(usual) != folders.root) folders.older = RootIn(usual);
  folders.index = folders.root / "installed.json";
  folders.pulled = folders.root / "pulled";
  folders.licenses = folders.root / "licenses.json";
  SIGHTLINE_ASSIGN_OR_RETURN(const fs::path own, CacheFolder());
  folders.images = own / "packages";
  return folders;
}

Result<StoreSettings> StoreSettingsFromEnvironment() {
  StoreSettings settings;
  SIGHTLINE_ASSIGN_OR_RETURN(settings.folders, StoreFoldersFromEnvironment());
  SIGHTLINE_ASSIGN_OR_RETURN(settings.hub, HubSettingsFromEnvironment());
  SIGHTLINE_ASSIGN_OR_RETURN(settings.engine, EngineOptionsFromEnvironment());
  return settings;
}

}  // namespace sightline
