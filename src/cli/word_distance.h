// Guessing what was meant by a word with a slip in it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sightline {

// The word that differs from `word` by the fewest letters added, left out, replaced or swapped with their neighbour; at
// most two, and fewer than half of them. Empty when there is none.
std::string NearestWord(std::string_view word, const std::vector<std::string>& words);

}  // namespace sightline
