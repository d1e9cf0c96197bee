#include "cli/locate_report.h"

#include <fmt/format.h>

#include "cli/terminal.h"

namespace sightline {
namespace {

constexpr size_t kProgressBytes = 48;
constexpr size_t kLabelBytes = 60;

std::string Heading(const std::string& name, const LocateAnswer& answer, const LocateEngineInfo& info,
                    double total_ms) {
  const PatchGrid grid = answer.pictures.front().grid;
  return fmt::format("{}: {}x{}, {}x{} patches, {:.0f} ms, {}, vision {}, language {}{}\n", OneLine(name), answer.width,
                     answer.height, grid.height, grid.width, total_ms, info.device, NameOf(info.precision.vision),
                     NameOf(info.precision.language), info.synthetic ? " [synthetic weights]" : "");
}

// At most `most` bytes, no character cut.
std::string Beginning(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  return text.substr(0, CompleteUtf8Prefix(text.substr(0, most))) + "...";
}

std::string PlaceRow(const LocatePlace& place) {
  const bool box = place.finding.kind == LocateFinding::Kind::kBox;
  const std::string where =
      box ? fmt::format("{:.0f},{:.0f},{:.0f},{:.0f}", place.box.x1, place.box.y1, place.box.x2, place.box.y2)
          : fmt::format("{:.0f},{:.0f}", place.point.x, place.point.y);
  const std::string label = OneLine(place.finding.label.value_or("-"));
  return fmt::format("{:<7}{:<22}{:<8.3f}{}\n", box ? "box" : "point", where, place.finding.score,
                     Beginning(label, kLabelBytes));
}

// How an answer ended other than by itself.
std::string EndText(const LocateAnswer& answer) {
  const size_t tokens = answer.generation.ids.size();
  switch (answer.generation.finish_reason) {
    case FinishReason::kEnd:
      return {};
    case FinishReason::kLength:
      return fmt::format("the answer was cut off after {} tokens (--max-new-tokens)", tokens);
    case FinishReason::kLoop:
      return fmt::format("the answer went in circles and was ended after {} tokens", tokens);
    case FinishReason::kMalformed:
      return fmt::format("the answer broke off inside a box after {} tokens", tokens);
  }
  return {};
}

}  // namespace

std::string LocateTable(const std::string& name, const LocateAnswer& answer, const LocateEngineInfo& info,
                        double total_ms) {
  std::string text = Heading(name, answer, info, total_ms);
  if (answer.places.empty()) {
    text += fmt::format("nothing: {}\n", answer.empty_reason);
  } else {
    text += fmt::format("{:<7}{:<22}{:<8}{}\n", "kind", "x1,y1,x2,y2 or x,y", "score", "label");
    for (const LocatePlace& place : answer.places) text += PlaceRow(place);
  }
  if (answer.categories.size() < 2) return text;
  for (const CategoryAnswer& category : answer.categories) {
    if (category.status == CategoryStatus::kFound) continue;
    text += fmt::format("{}: {}\n", Beginning(OneLine(category.name), kLabelBytes),
                        category.status == CategoryStatus::kNone ? "none" : "not answered");
  }
  return text;
}

std::vector<std::string> LocateWarningTexts(const std::vector<ReadPicture>& pictures, const LocateAnswer& answer) {
  std::vector<std::string> texts;
  for (const ReadPicture& picture : pictures) {
    for (const std::string& warning : picture.image->warnings) {
      texts.push_back(fmt::format("{}: {}", picture.name, warning));
    }
  }
  const std::string& name = pictures.front().name;
  for (const Warning& warning : answer.warnings) {
    texts.push_back(fmt::format("{}: {}: {}", name, warning.code, warning.message));
  }
  if (const std::string end = EndText(answer); !end.empty()) texts.push_back(fmt::format("{}: {}", name, end));
  return texts;
}

std::string ProgressText(const LocateProgress& progress) {
  if (progress.tokens == 0) return std::string(progress.stage);
  std::string_view text = progress.text;
  if (text.size() > kProgressBytes) {
    text.remove_prefix(text.size() - kProgressBytes);
    while (!text.empty() && (text.front() & 0xc0) == 0x80) text.remove_prefix(1);
  }
  return fmt::format("{}, {} tokens: {}", progress.stage, progress.tokens, text);
}

}  // namespace sightline
