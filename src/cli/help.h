// Help texts that are not about one verb. Pure.
#pragma once

#include <string>

namespace sightline {

// The table of exit codes, one line a code, made from base's Describe.
std::string ExitCodesText();

}  // namespace sightline
