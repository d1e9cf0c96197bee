#include <fmt/format.h>

#include "base/base.h"

namespace sightline {

std::string DecimalBytes(uint64_t bytes) {
  constexpr double kStep = 1000;
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  for (const std::string_view unit : {"kB", "MB", "GB"}) {
    value /= kStep;
    constexpr double kRoundsUp = 999.95;  // would be written as 1000.0
    if (value < kRoundsUp || unit == "GB") return fmt::format("{:.1f} {}", value, unit);
  }
  return {};
}

}  // namespace sightline
