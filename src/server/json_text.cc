#include "server/json_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace sightline {
namespace {

// The shortest text that reads back as `value`, with a point or an exponent so that it stays a float for its readers.
// (nlohmann's own digits are sometimes longer: 0.0006489999999999999 for 0.000649.)
void AppendNumber(double value, std::string* text) {
  if (!std::isfinite(value)) {
    text->append("null");
    return;
  }
  char digits[64];
  const auto written = std::to_chars(digits, digits + sizeof(digits), value);
  const std::string_view shortest(digits, static_cast<size_t>(written.ptr - digits));
  text->append(shortest);
  if (shortest.find_first_of(".e") == std::string_view::npos) text->append(".0");
}

std::string Quoted(const std::string& value) {
  return Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void AppendText(const Json& value, std::string* text) {
  const bool object = value.is_object();
  if (!object && !value.is_array()) {
    if (value.is_number_float()) return AppendNumber(value.get<double>(), text);
    text->append(value.dump(-1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  text->push_back(object ? '{' : '[');
  bool first = true;
  for (const auto& item : value.items()) {
    if (!std::exchange(first, false)) text->append(",");
    if (object) text->append(Quoted(item.key())).append(":");
    AppendText(item.value(), text);
  }
  text->push_back(object ? '}' : ']');
}

}  // namespace

double Round(double value, int decimals) {
  char text[400];
  const auto written = std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed, decimals);
  double rounded = value;
  std::from_chars(text, written.ptr, rounded);
  return rounded;
}

double Shortest(float value) {
  char text[64];
  const auto written = std::to_chars(text, text + sizeof(text), value);
  double number = 0;
  std::from_chars(text, written.ptr, number);
  return number;
}

std::string JsonText(const Json& document) {
  std::string text;
  AppendText(document, &text);
  return text;
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

void AddPictureWarnings(const std::vector<std::string>& warnings, const std::string& param, Json* list) {
  std::vector<Warning> split;
  for (const std::string& warning : warnings) {
    const size_t colon = std::min(warning.find(": "), warning.size());
    split.push_back({warning.substr(0, colon), warning.substr(std::min(colon + 2, warning.size())), param});
  }
  AddWarnings(split, list);
}

void AddWarnings(const std::vector<Warning>& warnings, Json* list) {
  for (const Warning& warning : warnings) {
    list->push_back({{"code", warning.code}, {"message", warning.message}, {"param", TextOrNull(warning.param)}});
  }
}

double TotalMilliseconds(std::optional<std::chrono::steady_clock::time_point> received, double otherwise) {
  if (!received) return otherwise;
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - *received).count();
}

}  // namespace sightline
