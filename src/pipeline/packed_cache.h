// Where engines keep packed weights.
#pragma once

#include <filesystem>

namespace sightline {

// CacheFolder(), or, where none is known, nothing, which means in memory; that is logged.
std::filesystem::path CacheFolderOrMemory();

}  // namespace sightline
