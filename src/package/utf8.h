// Text as code points.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sightline {

// The code point that begins at `at`, which moves behind it. Of bytes that are not UTF-8 it gives U+FFFD, one byte on.
uint32_t NextCodePoint(std::string_view text, size_t& at);
void AppendUtf8(uint32_t code, std::string& out);
// \u00e9, or a surrogate pair.
void AppendJsonEscape(uint32_t code, std::string& out);
// Offset of the first byte that is not UTF-8, or that begins a character which YAML does not allow.
std::optional<size_t> FindUnprintable(std::string_view text);

}  // namespace sightline
