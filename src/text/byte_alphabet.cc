#include "text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "base/base.h"

namespace sightline {
namespace {

constexpr int kCharacters = 256 + 68;  // up to the last of those that stand for bytes without a printable character

bool IsPrintable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

// Byte of each character, or -1.
std::array<int, kCharacters> MakeAlphabet() {
  std::array<int, kCharacters> bytes;
  bytes.fill(-1);
  size_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    bytes[IsPrintable(byte) ? static_cast<size_t>(byte) : next++] = byte;
  }
  return bytes;
}

}  // namespace

std::optional<std::string> BytesOfAlphabet(std::string_view text) {
  static const std::array<int, kCharacters> alphabet = MakeAlphabet();
  std::string bytes;
  while (!text.empty()) {
    const Utf8Part part = NextUtf8(text);
    if (!part.well_formed || part.length > 2) return std::nullopt;  // all of them have one or two bytes
    const auto first = static_cast<uint8_t>(text[0]);
    const size_t character = part.length == 1 ? first : (first & 0x1fu) << 6 | (static_cast<uint8_t>(text[1]) & 0x3fu);
    if (character >= alphabet.size() || alphabet[character] < 0) return std::nullopt;
    bytes += static_cast<char>(alphabet[character]);
    text.remove_prefix(part.length);
  }
  return bytes;
}

}  // namespace sightline
