#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "server/server.h"

namespace sightline {
namespace {

constexpr std::string_view kStandard = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr int8_t kOther = -1, kSpace = -2, kPadding = -3;

// The value of every digit in both alphabets; negative for what is none.
constexpr std::array<int8_t, 256> kDigits = [] {
  std::array<int8_t, 256> digits{};
  digits.fill(kOther);
  for (size_t i = 0; i < kStandard.size(); ++i) digits[static_cast<uint8_t>(kStandard[i])] = static_cast<int8_t>(i);
  digits['-'] = 62;
  digits['_'] = 63;
  for (const char c : {' ', '\t', '\r', '\n'}) digits[static_cast<uint8_t>(c)] = kSpace;
  digits['='] = kPadding;
  return digits;
}();

int8_t DigitOf(char c) { return kDigits[static_cast<uint8_t>(c)]; }

char LowerCase(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool StartsWithIgnoringCase(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), text.begin(), [](char a, char b) { return a == LowerCase(b); });
}

tl::unexpected<Error> NotBase64(const std::string& why) {
  return Fail(Code::kInvalidBase64, "image is not base64: " + why, "image");
}

std::string At(size_t offset) { return "byte " + std::to_string(offset); }

std::string CharacterAt(std::string_view text, size_t offset) {
  const char c = text[offset];
  if (c > ' ' && c < 0x7f) return At(offset) + " is '" + c + "'";
  char hex[8];
  std::snprintf(hex, sizeof(hex), "0x%02x", static_cast<uint8_t>(c));
  return At(offset) + " is " + hex;
}

// Whether the text names a place to fetch from: "https://...".
bool IsUrl(std::string_view text) {
  const size_t end = text.find("://");
  if (end == std::string_view::npos || end == 0 || end > 16) return false;
  return std::all_of(text.begin(), text.begin() + static_cast<ptrdiff_t>(end),
                     [](char c) { return LowerCase(c) >= 'a' && LowerCase(c) <= 'z'; });
}

// Where base64 begins: after the head of a data URI, RFC 2397, or at once.
Result<size_t> FindData(std::string_view text) {
  constexpr std::string_view kScheme = "data:", kMarker = ";base64";
  const size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  const std::string_view trimmed = text.substr(first);
  if (IsUrl(trimmed)) {
    return Fail(Code::kImageUrlNotAllowed, "image is a URL, expected the picture itself as base64 text", "image");
  }
  if (!StartsWithIgnoringCase(trimmed, kScheme)) return first;
  const size_t comma = trimmed.find(',');
  if (comma == std::string_view::npos) return NotBase64("the data URI has no comma");
  if (comma < kMarker.size() || !StartsWithIgnoringCase(trimmed.substr(comma - kMarker.size(), comma), kMarker)) {
    return NotBase64("the data URI does not say ';base64'");
  }
  if (StartsWithIgnoringCase(trimmed.substr(comma + 1), kScheme)) {
    return NotBase64("there is a second data URI inside the data URI, at " + At(first + comma + 1));
  }
  return first + comma + 1;
}

// A text in both alphabets at once was put together from two: refuse it rather than guess.
Status CheckOneAlphabet(std::string_view text, size_t start) {
  const size_t url_safe = std::min(text.find('-', start), text.find('_', start));
  if (url_safe == std::string_view::npos) return {};
  const size_t standard = std::min(text.find('+', start), text.find('/', start));
  if (standard == std::string_view::npos) return {};
  return NotBase64("it mixes the standard and the URL-safe alphabet, " +
                   CharacterAt(text, std::max(url_safe, standard)));
}

// What is left after the last whole group of four digits: up to three digits and the padding.
class Tail {
 public:
  explicit Tail(std::string_view text) : text_(text) {}

  // The next character of the text. `out` is where decoded bytes go, here and below.
  Status Add(size_t offset, std::byte*& out) {
    const int8_t digit = DigitOf(text_[offset]);
    if (digit == kSpace) return {};
    if (digit == kPadding) {
      ++padding_;
      if (count_ + padding_ > 4 || count_ < 2) return NotBase64("unexpected padding, " + CharacterAt(text_, offset));
      return {};
    }
    if (digit == kOther) return NotBase64(CharacterAt(text_, offset));
    if (padding_ > 0) return NotBase64("there is more after the padding, " + CharacterAt(text_, offset));
    last_digit_ = offset;
    bits_ = bits_ << 6 | static_cast<uint32_t>(digit);
    if (++count_ == 4) {
      for (const int shift : {16, 8, 0}) *out++ = static_cast<std::byte>(bits_ >> shift & 0xff);
      count_ = 0;
      bits_ = 0;
    }
    return {};
  }

  Status Finish(std::byte*& out) const {
    if (count_ == 0) return {};
    if (count_ == 1) return NotBase64("one digit is left over, " + CharacterAt(text_, last_digit_));
    if (padding_ > 0 && count_ + padding_ != 4) return NotBase64("the padding is one '=' short");
    const int unused = count_ == 2 ? 4 : 2;
    if ((bits_ & ((1u << unused) - 1)) != 0) {
      return NotBase64("the last digit has bits beyond the last byte, " + CharacterAt(text_, last_digit_));
    }
    const uint32_t bytes = bits_ >> unused;
    if (count_ == 3) *out++ = static_cast<std::byte>(bytes >> 8 & 0xff);
    *out++ = static_cast<std::byte>(bytes & 0xff);
    return {};
  }

  bool between_groups() const { return count_ == 0 && padding_ == 0; }

 private:
  std::string_view text_;
  uint32_t bits_ = 0;
  int count_ = 0;
  int padding_ = 0;
  size_t last_digit_ = 0;
};

// The value of four digits, negative when there are not four.
int32_t GroupAt(std::string_view text, size_t offset) {
  if (offset + 4 > text.size()) return -1;
  const int32_t a = DigitOf(text[offset]), b = DigitOf(text[offset + 1]);
  const int32_t c = DigitOf(text[offset + 2]), d = DigitOf(text[offset + 3]);
  if ((a | b | c | d) < 0) return -1;
  return a << 18 | b << 12 | c << 6 | d;
}

}  // namespace

Result<std::vector<std::byte>> DecodeImageText(std::string_view text) {
  SIGHTLINE_ASSIGN_OR_RETURN(size_t offset, FindData(text));
  SIGHTLINE_RETURN_IF_ERROR(CheckOneAlphabet(text, offset));
  std::vector<std::byte> bytes((text.size() - offset) / 4 * 3 + 3);
  std::byte* out = bytes.data();
  Tail tail(text);
  while (offset < text.size()) {
    const int32_t group = tail.between_groups() ? GroupAt(text, offset) : -1;
    if (group >= 0) {
      for (const int shift : {16, 8, 0}) *out++ = static_cast<std::byte>(group >> shift & 0xff);
      offset += 4;
    } else {
      SIGHTLINE_RETURN_IF_ERROR(tail.Add(offset++, out));
    }
  }
  SIGHTLINE_RETURN_IF_ERROR(tail.Finish(out));
  bytes.resize(static_cast<size_t>(out - bytes.data()));
  if (bytes.empty()) return Fail(Code::kImageEmpty, "image is empty", "image");
  return bytes;
}

}  // namespace sightline
