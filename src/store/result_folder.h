// A folder that is made aside and takes its place when it is whole.
#pragma once

#include <filesystem>

#include "base/base.h"

namespace sightline {

// `made` becomes `target`; what was there before is in `made` afterwards, or nothing. At no moment is there neither,
// where the file system can exchange two names.
Status TakePlace(const std::filesystem::path& made, const std::filesystem::path& target);

}  // namespace sightline
