#include "cli/values.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

namespace sightline {
namespace {

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// The number that is the whole text; what does not fit a double becomes an infinity.
std::optional<double> ReadReal(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::numeric_limits<double>::infinity();
  return value;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t comma = text.find(separator); comma != std::string_view::npos; comma = text.find(separator)) {
    parts.push_back(text.substr(0, comma));
    text.remove_prefix(comma + 1);
  }
  parts.push_back(text);
  return parts;
}

}  // namespace

Result<int64_t> ParseWhole(std::string_view option, std::string_view text, int64_t least, int64_t most) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    return Fail(Code::kUsage,
                fmt::format("{} is '{}', expected a whole number from {} to {}", option, text, least, most));
  }
  return value;
}

Result<double> ParseReal(std::string_view option, std::string_view text, double least, double most) {
  const std::optional<double> value = ReadReal(text);
  if (!value || !(*value >= least && *value <= most)) {
    return Fail(Code::kUsage, fmt::format("{} is '{}', expected a number from {} to {}", option, text, least, most));
  }
  return *value;
}

Result<std::optional<Box>> ParseBox(std::string_view text, size_t index) {
  if (Trim(text) == "none") return std::nullopt;
  std::vector<double> numbers;
  for (const std::string_view part : Split(text, ',')) {
    const std::optional<double> number = ReadReal(Trim(part));
    if (!number) break;
    numbers.push_back(*number);
  }
  if (numbers.size() != 4 || Split(text, ',').size() != 4) {
    return Fail(Code::kUsage,
                fmt::format("--box number {} is '{}', expected x1,y1,x2,y2 (four numbers with commas between them and "
                            "a point in decimals) or none",
                            index + 1, text),
                fmt::format("bboxes[{}]", index));
  }
  return Box{numbers[0], numbers[1], numbers[2], numbers[3]};
}

}  // namespace sightline
