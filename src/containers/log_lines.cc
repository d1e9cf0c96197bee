#include "containers/log_lines.h"

#include <cstdint>

namespace sightline {
namespace {

constexpr size_t kMaxLineBytes = 64 * 1024;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Lead {
  size_t length = 0;                // of the sequence; 0: no lead byte
  uint8_t low = 0x80, high = 0xBF;  // of the second byte
};

// Table 3-7 of the Unicode standard.
Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte >= 0xC2 && byte <= 0xDF) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  if (byte >= 0xF1 && byte <= 0xF3) return {4};
  return {};
}

// How many bytes from the start form a valid sequence or, with `valid` false, the beginning of one.
size_t SequenceLength(std::string_view text, bool* valid) {
  const Lead lead = LeadOf(static_cast<uint8_t>(text[0]));
  size_t length = 1;
  for (; length < lead.length && length < text.size(); ++length) {
    const auto byte = static_cast<uint8_t>(text[length]);
    const bool second = length == 1;
    if (byte < (second ? lead.low : 0x80) || byte > (second ? lead.high : 0xBF)) break;
  }
  *valid = lead.length == length;
  return length;
}

}  // namespace

std::string RepairUtf8(std::string_view text) {
  std::string repaired;
  repaired.reserve(text.size());
  while (!text.empty()) {
    bool valid = false;
    const size_t length = SequenceLength(text, &valid);
    repaired += valid ? text.substr(0, length) : kReplacement;
    text.remove_prefix(length);
  }
  return repaired;
}

bool LineSplitter::HandOver() {
  const std::string line = RepairUtf8(pending_);
  pending_.clear();
  return line_(line);
}

bool LineSplitter::Feed(std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) {
    const char c = static_cast<char>(byte);
    const bool second_half = c == '\n' && after_return_;
    after_return_ = c == '\r';
    if (second_half) continue;
    const bool ends = c == '\n' || c == '\r';
    if (!ends) pending_ += c;
    if ((ends || pending_.size() >= kMaxLineBytes) && !HandOver()) return false;
  }
  return true;
}

bool LineSplitter::End() { return pending_.empty() || HandOver(); }

}  // namespace sightline
