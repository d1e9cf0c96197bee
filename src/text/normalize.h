#pragma once

#include <string>
#include <string_view>

#include "base/base.h"

namespace sightline {

// Normalization Form C (Unicode Standard Annex 15) of well-formed UTF-8. Time and memory are linear in the text, but
// for the sorting of long runs of combining marks.
std::string NormalizeNfc(std::string_view text);

}  // namespace sightline
