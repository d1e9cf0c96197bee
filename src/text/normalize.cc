#include "text/normalize.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

namespace sightline {
namespace {

constexpr size_t kMaxDecomposition = 18;  // U+FDFA has 18; canonical ones have at most 4

bool IsAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

utf8proc_propval_t CombiningClass(utf8proc_int32_t character) {
  return utf8proc_get_property(character)->combining_class;
}

std::vector<utf8proc_int32_t> Decompose(std::string_view text) {
  std::vector<utf8proc_int32_t> characters;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (auto left = static_cast<utf8proc_ssize_t>(text.size()); left > 0;) {
    utf8proc_int32_t character = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(bytes, left, &character);
    SIGHTLINE_CHECK(length > 0);
    std::array<utf8proc_int32_t, kMaxDecomposition> parts;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(character, parts.data(), parts.size(), UTF8PROC_DECOMPOSE, nullptr);
    SIGHTLINE_CHECK(count > 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()));
    characters.insert(characters.end(), parts.begin(), parts.begin() + count);
    bytes += length;
    left -= length;
  }
  return characters;
}

// Canonical ordering. utf8proc's own takes time that grows with the square of a run of marks.
void SortMarks(std::vector<utf8proc_int32_t>& characters) {
  const auto is_mark = [](utf8proc_int32_t character) { return CombiningClass(character) != 0; };
  for (auto at = characters.begin(); at != characters.end();) {
    const auto first = std::find_if(at, characters.end(), is_mark);
    at = std::find_if_not(first, characters.end(), is_mark);
    std::ranges::stable_sort(first, at, {}, CombiningClass);
  }
}

}  // namespace

std::string NormalizeNfc(std::string_view text) {
  if (IsAscii(text)) return std::string(text);
  std::vector<utf8proc_int32_t> characters = Decompose(text);
  SortMarks(characters);
  const utf8proc_ssize_t count =
      utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  SIGHTLINE_CHECK(count >= 0);
  std::string composed;
  composed.reserve(text.size());
  for (const utf8proc_int32_t character : std::span(characters).first(static_cast<size_t>(count))) {
    std::array<utf8proc_uint8_t, 4> bytes;
    const utf8proc_ssize_t length = utf8proc_encode_char(character, bytes.data());
    composed.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length));
  }
  return composed;
}

}  // namespace sightline
