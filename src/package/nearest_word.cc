#include <algorithm>

#include "package/package.h"

namespace sightline {
namespace {

// Optimal string alignment: https://en.wikipedia.org/wiki/Damerau-Levenshtein_distance
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> best(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        best[i][j] = i + j;
        continue;
      }
      const size_t replaced = best[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      best[i][j] = std::min({best[i - 1][j] + 1, best[i][j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) best[i][j] = std::min(best[i][j], best[i - 2][j - 2] + 1);
    }
  }
  return best[a.size()][b.size()];
}

}  // namespace

std::string NearestWord(std::string_view word, const std::vector<std::string>& words) {
  constexpr size_t kMost = 2, kLongest = 40;
  if (word.size() > kLongest) return {};
  std::string nearest;
  size_t least = kMost + 1;
  for (const std::string& candidate : words) {
    const size_t distance = Distance(word, candidate);
    if (distance < least && 2 * distance < candidate.size()) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace sightline
