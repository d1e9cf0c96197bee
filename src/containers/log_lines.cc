#include "containers/log_lines.h"

#include <cstdint>

#include "base/base.h"

namespace sightline {
namespace {

constexpr size_t kMaxLineBytes = 64 * 1024;

}  // namespace

bool LineSplitter::HandOver() {
  const std::string line = ReplaceInvalidUtf8(pending_);
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
