#include "package/utf8.h"

#include <fmt/format.h>

#include "base/base.h"

namespace sightline {
namespace {

constexpr uint32_t kReplacement = 0xFFFD;

// Of a well-formed character.
uint32_t CodePointOf(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(character[i])); };
  if (character.size() == 1) return byte(0);
  uint32_t code = byte(0) & (0x7Fu >> character.size());
  for (size_t i = 1; i < character.size(); ++i) code = (code << 6) | (byte(i) & 0x3F);
  return code;
}

// The "printable" characters of YAML 1.1.
bool IsPrintable(uint32_t code) {
  if (code < 0x20) return code == '\t' || code == '\n' || code == '\r';
  return code < 0x7F || code == 0x85 || (code >= 0xA0 && code != 0xFFFE && code != 0xFFFF);
}

}  // namespace

uint32_t NextCodePoint(std::string_view text, size_t& at) {
  const std::string_view rest = text.substr(at);
  const Utf8Part part = NextUtf8(rest);
  at += part.well_formed ? part.length : 1;
  return part.well_formed ? CodePointOf(rest.substr(0, part.length)) : kReplacement;
}

void AppendUtf8(uint32_t code, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

void AppendJsonEscape(uint32_t code, std::string& out) {
  if (code >= 0x10000) {
    out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + ((code - 0x10000) & 0x3FF));
  } else {
    out += fmt::format("\\u{:04x}", code);
  }
}

std::optional<size_t> FindUnprintable(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const Utf8Part part = NextUtf8(rest);
    if (!part.well_formed || !IsPrintable(CodePointOf(rest.substr(0, part.length)))) return at;
    at += part.length;
  }
  return std::nullopt;
}

}  // namespace sightline
