#include "cli/number_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace sightline {

std::string DurationText(std::chrono::milliseconds duration) {
  constexpr int64_t kSecond = 1000, kMinute = 60'000;
  const int64_t ms = duration.count();
  if (ms < kSecond) return fmt::format("{}ms", ms);
  if (ms < kMinute) return fmt::format("{:.1f}s", static_cast<double>(ms / 100) / 10);  // never "60.0s"
  return fmt::format("{}m {}s", ms / kMinute, ms % kMinute / kSecond);
}

std::string ClockText(std::chrono::seconds duration) {
  const int64_t seconds = duration.count();
  if (seconds < 3600) return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
  return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds % 3600 / 60, seconds % 60);
}

std::string BarText(uint64_t done, uint64_t total) {
  constexpr uint64_t kWidth = 14;
  if (total == 0) return {};
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const auto full = static_cast<uint64_t>(share * kWidth);
  std::string bar = "▕";
  for (uint64_t i = 0; i < kWidth; ++i) bar += i < full ? "█" : "░";
  return bar + "▏";
}

size_t ColumnsOf(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string CutToColumns(std::string text, size_t columns) {
  if (ColumnsOf(text) <= columns) return text;
  size_t bytes = 0;
  for (size_t seen = 0; bytes < text.size(); ++bytes) {
    if ((static_cast<unsigned char>(text[bytes]) & 0xC0) != 0x80 && ++seen >= columns) break;
  }
  return text.substr(0, bytes) + "…";
}

}  // namespace sightline
