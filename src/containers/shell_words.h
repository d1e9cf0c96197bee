// Words as a shell splits them, nothing expanded.
#pragma once

#include "containers/containers.h"

namespace sightline {

// `name` is what an error speaks of. kUsage for an open quote.
Result<std::vector<std::string>> SplitShellWords(std::string_view text, const std::string& name);

}  // namespace sightline
