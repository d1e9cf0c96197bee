// The JSON that `inspect` prints, of docker and podman alike.
#pragma once

#include "containers/containers.h"

namespace sightline {

// `what` is what an error speaks of. Fields that are absent stay empty.
Result<std::vector<ContainerState>> ParseInspect(const std::string& json, const std::string& what);

}  // namespace sightline
