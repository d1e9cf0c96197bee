// UTF-8 as The Unicode Standard 15, 3.9, table 3-7 has it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sightline {

// What stands at the front of some bytes: a well-formed character, or the longest part of one that could still become
// one ("maximal subpart"; one byte where not even that).
struct Utf8Part {
  size_t length = 0;
  bool well_formed = false;
  bool cut_off = false;  // the bytes end inside what may be a character
};
Utf8Part NextUtf8(std::string_view bytes);

// Every maximal invalid part becomes one U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view bytes);

}  // namespace sightline
