#include <algorithm>
#include <cstdint>

#include "base/base.h"

namespace sightline {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";
constexpr size_t kMaxLength = 4;

// Row of table 3-7: how long a character with this first byte is, and what its second byte may be.
struct Form {
  size_t length;
  uint8_t second_least = 0x80, second_most = 0xbf;
};

Form FormOf(uint8_t first) {
  if (first < 0x80) return {1};
  if (first < 0xc2) return {0};
  if (first < 0xe0) return {2};
  if (first == 0xe0) return {3, 0xa0, 0xbf};
  if (first == 0xed) return {3, 0x80, 0x9f};
  if (first < 0xf0) return {3};
  if (first == 0xf0) return {4, 0x90, 0xbf};
  if (first < 0xf4) return {4};
  if (first == 0xf4) return {4, 0x80, 0x8f};
  return {0};
}

}  // namespace

Utf8Part NextUtf8(std::string_view bytes) {
  if (bytes.empty()) return {};
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const Form form = FormOf(byte(0));
  if (form.length == 0) return {1, false, false};
  size_t length = 1;
  for (; length < form.length; ++length) {
    if (length == bytes.size()) return {length, false, true};
    const uint8_t least = length == 1 ? form.second_least : 0x80, most = length == 1 ? form.second_most : 0xbf;
    if (byte(length) < least || byte(length) > most) return {length, false, false};
  }
  return {length, true, false};
}

size_t FindInvalidUtf8(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Part part = NextUtf8(bytes.substr(at));
    if (!part.well_formed) return at;
    at += part.length;
  }
  return std::string_view::npos;
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Part part = NextUtf8(bytes);
    text += part.well_formed ? bytes.substr(0, part.length) : kReplacement;
    bytes.remove_prefix(part.length);
  }
  return text;
}

size_t CompleteUtf8Prefix(std::string_view bytes) {
  for (size_t back = 1; back < kMaxLength && back <= bytes.size(); ++back) {
    const size_t at = bytes.size() - back;
    if (NextUtf8(bytes.substr(at)).cut_off) return at;
    if ((static_cast<uint8_t>(bytes[at]) & 0xc0) != 0x80) break;  // the last character begins here
  }
  return bytes.size();
}

}  // namespace sightline
