#include "package/utf8.h"

#include <fmt/format.h>

namespace sightline {
namespace {

constexpr uint32_t kReplacement = 0xFFFD;

// Length by the first byte; 0: no first byte.
size_t LengthOf(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  if (first >= 0xF0 && first < 0xF5) return 4;
  return 0;
}

std::optional<uint32_t> Decode(std::string_view text, size_t at, size_t length) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[at + i])); };
  if (length == 0 || at + length > text.size()) return std::nullopt;
  if (length == 1) return byte(0);
  uint32_t code = byte(0) & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return std::nullopt;
    code = (code << 6) | (byte(i) & 0x3F);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (code < kLeast[length] || code > 0x10FFFF || surrogate) return std::nullopt;
  return code;
}

// The "printable" characters of YAML 1.1.
bool IsPrintable(uint32_t code) {
  if (code < 0x20) return code == '\t' || code == '\n' || code == '\r';
  return code < 0x7F || code == 0x85 || (code >= 0xA0 && code != 0xFFFE && code != 0xFFFF);
}

}  // namespace

uint32_t NextCodePoint(std::string_view text, size_t& at) {
  const size_t length = LengthOf(static_cast<unsigned char>(text[at]));
  const auto code = Decode(text, at, length);
  at += code ? length : 1;
  return code.value_or(kReplacement);
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
    const size_t start = at;
    const size_t length = LengthOf(static_cast<unsigned char>(text[at]));
    const auto code = Decode(text, at, length);
    if (!code || !IsPrintable(*code)) return start;
    at += length;
  }
  return std::nullopt;
}

}  // namespace sightline
