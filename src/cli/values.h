// Values as people type them. A point is the decimal separator in every locale, and the whole text must be the value.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/base.h"
#include "media/media.h"

namespace sightline {

// "--threads is '0', expected a whole number from 1 to 1024" (kUsage).
Result<int64_t> ParseWhole(std::string_view option, std::string_view text, int64_t least, int64_t most);
// "--head-threshold is 'x', expected a number from 0 to 1" (kUsage).
Result<double> ParseReal(std::string_view option, std::string_view text, double least, double most);

// A --box: "x1,y1,x2,y2", or "none" for nobody. NaN, infinity and numbers too large for a double are let through, for
// the pipeline to refuse as it does for the server. `index` counts from 0 and names the box in the error (kUsage).
Result<std::optional<Box>> ParseBox(std::string_view text, size_t index);

}  // namespace sightline
