// Numbers as tt-model writes them. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace sightline {

// "420ms", "5.0s", "3m 34s"
std::string DurationText(std::chrono::milliseconds duration);
// "0:42", "1:02:05"
std::string ClockText(std::chrono::seconds duration);
// "▕███████░░░░░░░▏", 14 wide; empty when `total` is 0, which means unknown.
std::string BarText(uint64_t done, uint64_t total);
// How many columns a terminal needs for it: one a character.
size_t ColumnsOf(std::string_view text);
// At most so many columns, with "…" where something was cut.
std::string CutToColumns(std::string text, size_t columns);

}  // namespace sightline
