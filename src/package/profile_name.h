// Names of serve profiles.
#pragma once

#include <string_view>

namespace sightline {

// Whether a profile's name may become part of a container's name: letters, digits, . _ -
bool IsProfileName(std::string_view name);

}  // namespace sightline
