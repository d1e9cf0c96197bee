// Names of the hub in URLs and on disk.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hub/hub.h"

namespace sightline {

// `digits` lower-case hexadecimal digits.
bool IsHex(std::string_view text, size_t digits);
// What names a blob: the SHA-1 of a git blob or the SHA-256 of an LFS file.
bool IsBlobName(std::string_view text);

// A branch, a tag or a commit as the hub may have it: a path like refs/pr/1 is one too. kUnsafe otherwise.
HubStatus CheckRevision(std::string_view repo, std::string_view revision);

// Every name by CheckHubPath, none twice, none that is also a folder of another. kUnsafe names the first that is not.
HubStatus CheckTree(std::string_view repo, const std::vector<HubFile>& files);

}  // namespace sightline
