// Where the files asked for with --overlay and --heatmap go.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/base.h"
#include "cli/pictures.h"

namespace sightline {

// One path for each picture, empty ones where `value` is empty. One picture: `value` itself, or NAME + `extension` in
// it where it is a folder. Several: NAME + `extension` in the folder `value`, which is made; a NAME that was taken
// already becomes NAME-2. Fails where a path would overwrite one of the pictures (kUsage) or its folder is missing.
Result<std::vector<std::filesystem::path>> PlanOutputs(const std::string& option, const std::filesystem::path& value,
                                                       const std::string& extension, const Pictures& pictures);

}  // namespace sightline
