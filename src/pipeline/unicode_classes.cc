#include "pipeline/unicode_classes.h"

#include <algorithm>
#include <array>

namespace sightline {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

// The zeros of general category Nd; nine more digits follow each.
constexpr std::array<char32_t, 66> kZeros{
    0x0030,  0x0660,  0x06F0,  0x07C0,  0x0966,  0x09E6,  0x0A66,  0x0AE6,  0x0B66,  0x0BE6,  0x0C66,
    0x0CE6,  0x0D66,  0x0DE6,  0x0E50,  0x0ED0,  0x0F20,  0x1040,  0x1090,  0x17E0,  0x1810,  0x1946,
    0x19D0,  0x1A80,  0x1A90,  0x1B50,  0x1BB0,  0x1C40,  0x1C50,  0xA620,  0xA8D0,  0xA900,  0xA9D0,
    0xA9F0,  0xAA50,  0xABF0,  0xFF10,  0x104A0, 0x10D30, 0x11066, 0x110F0, 0x11136, 0x111D0, 0x112F0,
    0x11450, 0x114D0, 0x11650, 0x116C0, 0x11730, 0x118E0, 0x11950, 0x11C50, 0x11D50, 0x11DA0, 0x16A60,
    0x16AC0, 0x16B50, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6, 0x1E140, 0x1E2F0, 0x1E950, 0x1FBF0};

constexpr std::array<char32_t, 8> kSpaces{0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};

size_t LengthByLead(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  return lead >= 0xF0 && lead < 0xF5 ? 4 : 0;
}

// Where the last character of `text` begins.
size_t LastCharacter(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && text.size() - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return FirstCharacter(text.substr(at)).length == text.size() - at ? at : text.size() - 1;
}

}  // namespace

Character FirstCharacter(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = LengthByLead(lead);
  if (length == 1) return {lead, 1};
  if (length == 0 || length > text.size()) return {kReplacement, 1};
  char32_t code = lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return {kReplacement, 1};
    code = code << 6 | (next & 0x3Fu);
  }
  return {code, length};
}

std::optional<int> DecimalDigit(char32_t code) {
  const auto behind = std::ranges::upper_bound(kZeros, code);
  if (behind == kZeros.begin() || code - *(behind - 1) > 9) return std::nullopt;
  return static_cast<int>(code - *(behind - 1));
}

bool IsSpace(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || (code >= 0x2000 && code <= 0x200A) ||
         std::ranges::find(kSpaces, code) != kSpaces.end();
}

std::string_view StripSpace(std::string_view text) {
  while (!text.empty()) {
    const Character first = FirstCharacter(text);
    if (!IsSpace(first.code)) break;
    text.remove_prefix(first.length);
  }
  while (!text.empty()) {
    const size_t last = LastCharacter(text);
    if (!IsSpace(FirstCharacter(text.substr(last)).code)) break;
    text = text.substr(0, last);
  }
  return text;
}

}  // namespace sightline
