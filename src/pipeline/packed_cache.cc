#include "pipeline/packed_cache.h"

#include "base/base.h"

namespace sightline {

std::filesystem::path CacheFolderOrMemory() {
  auto folder = CacheFolder();
  if (folder) return *std::move(folder);
  LogWarning(folder.error().message + "; packing weights into memory, which takes time at every start");
  return {};
}

}  // namespace sightline
