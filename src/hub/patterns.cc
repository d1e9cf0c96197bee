#include <algorithm>
#include <string>

#include "hub/hub.h"

namespace sightline {
namespace {

// Code points, as Python counts; bytes that are no UTF-8 stand for themselves.
std::u32string CodePoints(std::string_view text) {
  std::u32string points;
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
    if (length > text.size() - i) length = 1;
    char32_t point = length == 1 ? first : first & (0xffu >> (length + 1));
    for (size_t k = 1; k < length; ++k) point = (point << 6) | (static_cast<unsigned char>(text[i + k]) & 0x3fu);
    points += point;
    i += length;
  }
  return points;
}

// Where the set that begins behind the [ at `start` ends: the place of its ]; npos when it never does, and the [ stands
// for itself.
size_t EndOfSet(const std::u32string& pattern, size_t start) {
  size_t end = start;
  if (end < pattern.size() && pattern[end] == U'!') ++end;
  if (end < pattern.size() && pattern[end] == U']') ++end;  // a ] in the first place is a member
  return pattern.find(U']', end);
}

bool IsInSet(const std::u32string& pattern, size_t start, size_t end, char32_t c) {
  const bool negated = pattern[start] == U'!';
  bool found = false;
  for (size_t i = start + (negated ? 1 : 0); i < end; ++i) {
    if (i + 2 < end && pattern[i + 1] == U'-') {
      found = found || (pattern[i] <= c && c <= pattern[i + 2]);
      i += 2;
    } else {
      found = found || pattern[i] == c;
    }
  }
  return found != negated;
}

// Matches one element of the pattern at `p`, which is no *; its length, or 0.
size_t MatchOne(const std::u32string& pattern, size_t p, char32_t c) {
  if (pattern[p] == U'?') return 1;
  if (pattern[p] == U'[') {
    const size_t end = EndOfSet(pattern, p + 1);
    if (end != std::u32string::npos) return IsInSet(pattern, p + 1, end, c) ? end + 1 - p : 0;
  }
  return pattern[p] == c ? 1 : 0;
}

// On a mismatch the last * takes one more character, and no earlier one needs to: linear in pattern times text.
bool Matches(const std::u32string& pattern, const std::u32string& text) {
  size_t p = 0, t = 0, star = std::u32string::npos, retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == U'*') {
      star = p++;
      retry = t;
      continue;
    }
    if (const size_t length = p < pattern.size() ? MatchOne(pattern, p, text[t]) : 0; length > 0) {
      p += length;
      ++t;
    } else if (star != std::u32string::npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == U'*') ++p;
  return p == pattern.size();
}

}  // namespace

// https://docs.python.org/3/library/fnmatch.html
bool MatchesHubPattern(std::string_view pattern, std::string_view path) {
  std::string whole(pattern);
  std::replace(whole.begin(), whole.end(), '\\', '/');
  if (whole.ends_with('/')) whole += '*';
  return Matches(CodePoints(whole), CodePoints(path));
}

bool HubPatterns::Select(std::string_view path) const {
  const auto matches = [path](const std::string& pattern) { return MatchesHubPattern(pattern, path); };
  return (allow.empty() || std::any_of(allow.begin(), allow.end(), matches)) &&
         std::none_of(ignore.begin(), ignore.end(), matches);
}

}  // namespace sightline
