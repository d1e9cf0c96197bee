// Copying files and folders into a build context.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "package/package.h"

namespace sightline {

// Whether to leave `name` in `folder` out; `at_root` where that is the folder which is copied.
using LeaveOut = std::function<bool(const std::filesystem::path& folder, const std::string& name, bool at_root)>;

enum class Links {
  kFollowed,  // their content is copied; one that leads out of `root` or around in a circle is refused
  kKept,
};

// Copies `source`, a file or folder below `root`, to `destination`. Folders merge, files replace files. Anything that
// is neither file, folder nor link is refused.
Status CopyTree(const std::filesystem::path& root, const std::filesystem::path& source,
                const std::filesystem::path& destination, Links links, const LeaveOut& leave_out);

// Whether `name` matches `pattern`, in which only a "*" at its start has a meaning.
bool MatchesEnding(const std::string& name, std::string_view pattern);

}  // namespace sightline
