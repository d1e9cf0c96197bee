// The readers of published programs, as scanners.
#include <algorithm>
#include <array>
#include <charconv>

#include "pipeline/pipeline.h"
#include "pipeline/unicode_classes.h"

namespace sightline {
namespace {

// How "<12>" may be written.
enum class Numbers {
  kDigits,    // \d+ of Python, nothing between the parts of a box
  kDecimals,  // [0-9]+(\.[0-9]+)?, white space before each part
};

constexpr int kMostDigits = 15;  // exact in a double

bool Take(std::string_view* text, std::string_view expected) {
  if (!text->starts_with(expected)) return false;
  text->remove_prefix(expected.size());
  return true;
}

void SkipSpace(std::string_view* text) {
  while (!text->empty()) {
    const Character first = FirstCharacter(*text);
    if (!IsSpace(first.code)) return;
    text->remove_prefix(first.length);
  }
}

std::optional<double> TakeDigits(std::string_view* text) {
  double value = 0;
  int digits = 0;
  bool any = false;
  while (!text->empty()) {
    const Character first = FirstCharacter(*text);
    const auto digit = DecimalDigit(first.code);
    if (!digit) break;
    any = true;
    digits += digits > 0 || *digit > 0 ? 1 : 0;
    value = 10 * value + *digit;
    text->remove_prefix(first.length);
  }
  return any && digits <= kMostDigits ? std::optional(value) : std::nullopt;
}

std::optional<double> TakeDecimal(std::string_view* text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto length_of_digits = [&](std::string_view digits) {
    return static_cast<size_t>(std::ranges::find_if_not(digits, is_digit) - digits.begin());
  };
  size_t length = length_of_digits(*text);
  if (length == 0) return std::nullopt;
  if (length < text->size() && (*text)[length] == '.') {
    const size_t fraction = length_of_digits(text->substr(length + 1));
    if (fraction > 0) length += 1 + fraction;
  }
  double value = 0;
  if (std::from_chars(text->data(), text->data() + length, value).ec != std::errc()) return std::nullopt;
  text->remove_prefix(length);
  return value;
}

// "<box>", `count` numbers and "</box>" at the front of `text`, which then begins behind them; or nothing is taken.
template <size_t count>
std::optional<std::array<double, count>> TakeBox(std::string_view* text, Numbers numbers) {
  const auto space = [&](std::string_view* rest) {
    if (numbers == Numbers::kDecimals) SkipSpace(rest);
  };
  std::string_view rest = *text;
  if (!Take(&rest, "<box>")) return std::nullopt;
  std::array<double, count> values;
  for (double& value : values) {
    space(&rest);
    if (!Take(&rest, "<")) return std::nullopt;
    const auto number = numbers == Numbers::kDecimals ? TakeDecimal(&rest) : TakeDigits(&rest);
    if (!number || !Take(&rest, ">")) return std::nullopt;
    value = *number;
  }
  space(&rest);
  if (!Take(&rest, "</box>")) return std::nullopt;
  *text = rest;
  return values;
}

// Calls take(&text) at every "<" in turn; it takes something from the front or nothing.
template <typename TakeSomething>
void ForEachTag(std::string_view text, TakeSomething&& take) {
  while (true) {
    const size_t tag = text.find('<');
    if (tag == std::string_view::npos) return;
    text.remove_prefix(tag);
    const size_t before = text.size();
    take(&text);
    if (text.size() == before) text.remove_prefix(1);
  }
}

Box BoxInPixels(const std::array<double, 4>& values, int width, int height) {
  return {values[0] / 1000 * width, values[1] / 1000 * height, values[2] / 1000 * width, values[3] / 1000 * height};
}

Point PointInPixels(const std::array<double, 2>& values, int width, int height) {
  return {values[0] / 1000 * width, values[1] / 1000 * height};
}

template <size_t count>
std::array<int64_t, count> Integers(const std::array<double, count>& values) {
  std::array<int64_t, count> integers;
  std::ranges::transform(values, integers.begin(), [](double value) { return static_cast<int64_t>(value); });
  return integers;
}

// "<ref>" up to the nearest "</ref>": what stands between. `last_end` is where the text's last "</ref>" begins, counted
// from the text's end, so that many unclosed labels are not searched to the end each.
std::optional<std::string_view> TakeLabel(std::string_view* text, size_t last_end) {
  if (!text->starts_with("<ref>") || text->size() < last_end + 5) return std::nullopt;
  const size_t end = text->find("</ref>", 5);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view label = text->substr(5, end - 5);
  text->remove_prefix(end + 6);
  return label;
}

size_t FromEnd(std::string_view text, std::string_view tag) {
  const size_t last = text.rfind(tag);
  return last == std::string_view::npos ? std::string_view::npos / 2 : text.size() - last;
}

// ---- evaluation

constexpr double kTooLarge = 10001;

double Clamped(double value, int side) { return std::clamp(value * side / 1000, 0.0, static_cast<double>(side - 1)); }

// Boxes and points of one label's run of "<box>...</box>".
std::vector<std::vector<double>> PlacesOf(std::string_view run, int width, int height, EvaluationTask task) {
  std::vector<std::vector<double>> boxes, places;
  const auto too_large = [](const auto& values) { return std::ranges::max(values) >= kTooLarge; };
  ForEachTag(run, [&](std::string_view* rest) {
    if (const auto box = TakeBox<4>(rest, Numbers::kDecimals)) {
      if (too_large(*box)) return;
      const auto [x1, x2] = std::minmax({Clamped((*box)[0], width), Clamped((*box)[2], width)});
      const auto [y1, y2] = std::minmax({Clamped((*box)[1], height), Clamped((*box)[3], height)});
      boxes.push_back({x1, y1, x2, y2});
    } else if (const auto point = TakeBox<2>(rest, Numbers::kDecimals)) {
      if (task == EvaluationTask::kDetection || too_large(*point)) return;
      places.push_back({Clamped((*point)[0], width), Clamped((*point)[1], height)});
    }
  });
  std::ranges::move(boxes, std::back_inserter(places));
  return places;
}

// "<box>" up to "</box>" on one line, as often as it follows itself.
std::string_view TakeRun(std::string_view* text, size_t last_end) {
  const std::string_view all = *text;
  while (text->starts_with("<box>") && text->size() >= last_end) {
    const size_t end = text->find("</box>", 5);
    if (end == std::string_view::npos || text->substr(0, end).find('\n') != std::string_view::npos) break;
    text->remove_prefix(end + 6);
  }
  return all.substr(0, all.size() - text->size());
}

// A label without "<", and the boxes right behind it.
struct Group {
  std::string_view label, run;
};
std::optional<Group> TakeGroup(std::string_view* text, size_t last_box_end) {
  std::string_view rest = *text;
  if (!Take(&rest, "<ref>")) return std::nullopt;
  const std::string_view label = rest.substr(0, rest.find('<'));
  rest.remove_prefix(label.size());
  if (label.empty() || !Take(&rest, "</ref>")) return std::nullopt;
  const std::string_view run = TakeRun(&rest, last_box_end);
  if (run.empty()) return std::nullopt;
  *text = rest;
  return Group{label, run};
}

}  // namespace

WorkerReading ReadLikeWorker(std::string_view text, int width, int height) {
  WorkerReading reading;
  ForEachTag(text, [&](std::string_view* rest) {
    if (const auto box = TakeBox<4>(rest, Numbers::kDigits)) {
      reading.boxes.push_back(BoxInPixels(*box, width, height));
    } else if (const auto point = TakeBox<2>(rest, Numbers::kDigits)) {
      reading.points.push_back(PointInPixels(*point, width, height));
    }
  });
  return reading;
}

PortReading ReadLikePort(std::string_view text, int width, int height) {
  PortReading reading;
  std::optional<std::string> label;
  const size_t last_end = FromEnd(text, "</ref>");
  ForEachTag(text, [&](std::string_view* rest) {
    if (const auto found = TakeLabel(rest, last_end)) {
      label = StripSpace(*found);
    } else if (const auto box = TakeBox<4>(rest, Numbers::kDigits)) {
      reading.detections.push_back({label, BoxInPixels(*box, width, height), Integers(*box)});
    } else if (const auto point = TakeBox<2>(rest, Numbers::kDigits)) {
      reading.points.push_back({label, PointInPixels(*point, width, height), Integers(*point)});
    }
  });
  return reading;
}

std::vector<EvaluationLabel> ReadLikeEvaluation(std::string_view text, int width, int height, EvaluationTask task) {
  std::vector<EvaluationLabel> labels;
  const size_t last_box_end = FromEnd(text, "</box>");
  ForEachTag(text, [&](std::string_view* rest) {
    const auto group = TakeGroup(rest, last_box_end);
    if (!group) return;
    auto places = PlacesOf(group->run, width, height, task);
    if (places.empty()) return;
    auto same = std::ranges::find(labels, group->label, &EvaluationLabel::label);
    if (same == labels.end()) same = labels.insert(same, {std::string(group->label), {}});
    std::ranges::move(places, std::back_inserter(same->places));
  });
  return labels;
}

}  // namespace sightline
