// The tags in the front matter of a README.md, edited in place: everything else of the text stays as it is. Pure.
#pragma once

#include <string>
#include <string_view>

namespace sightline {

// Adds `tag` unless it is there. A text without front matter gets one.
std::string WithCardTag(std::string_view readme, std::string_view tag);
std::string WithoutCardTag(std::string_view readme, std::string_view tag);

}  // namespace sightline
