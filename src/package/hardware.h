// Boards and meshes beyond what the public header says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "package/package.h"

namespace sightline {

// Trimmed and in lower case, as labels are compared and tagged.
std::string LowerHardware(std::string_view hardware);
// Whether `name` is a name that only mesh_device knows: "QB2".
bool IsMeshPreset(std::string_view name);
std::vector<std::string> BoardNames();

}  // namespace sightline
