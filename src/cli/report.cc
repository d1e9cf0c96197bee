#include "cli/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/terminal.h"

namespace sightline {
namespace {

bool LooksInside(const GazePerson& person) { return !person.inout || *person.inout >= kInFrame; }

// What must be said wherever an answer from such weights is shown; empty for real ones.
std::string WeightsMark(const GazeEngineInfo& info) {
  if (info.synthetic) return "synthetic weights";
  return info.toy ? "toy weights" : "";
}

Box HeadPixels(const GazePerson& person, const GazeAnswer& answer) {
  const double width = answer.width, height = answer.height;
  return {person.normalized.x1 * width, person.normalized.y1 * height, person.normalized.x2 * width,
          person.normalized.y2 * height};
}

std::string Heading(const Answered& answered, const GazeEngineInfo& info) {
  const std::string mark = WeightsMark(info);
  return fmt::format("{}: {}x{}, {:.0f} ms, {}, {}, profile {}{}\n", OneLine(answered.name), answered.answer.width,
                     answered.answer.height, answered.total_ms, info.device, NameOf(info.precision),
                     NameOf(info.profile), mark.empty() ? "" : " [" + mark + "]");
}

std::string PersonRow(size_t number, const GazePerson& person, const GazeAnswer& answer) {
  const Box head = HeadPixels(person, answer);
  const std::string box =
      person.marked ? fmt::format("{:.0f},{:.0f},{:.0f},{:.0f}", head.x1, head.y1, head.x2, head.y2) : "nobody marked";
  const std::string target =
      LooksInside(person) ? fmt::format("{:.1f}, {:.1f}", person.target.x, person.target.y) : "out of frame";
  const std::string inout = person.inout ? fmt::format("{:.2f}", *person.inout) : "-";
  return fmt::format("{:<8}{:<22}{:<18}{:<8.3f}{}\n", number, box, target, person.score, inout);
}

std::string Label(const Answered& answered, size_t index) {
  const GazePerson& person = answered.answer.people[index];
  std::string label = answered.answer.people.size() > 1 ? fmt::format("{}", index + 1) : "";
  if (!person.inout) return label;
  if (!label.empty()) label += ": ";
  return label + fmt::format("{} {:.2f}", LooksInside(person) ? "in frame" : "out of frame", *person.inout);
}

OverlayPerson Drawn(const Answered& answered, size_t index) {
  const GazePerson& person = answered.answer.people[index];
  OverlayPerson drawn;
  // A gaze of nobody in particular has no head to start from: only its label is drawn, at the target.
  drawn.head = {person.target.x, person.target.y, person.target.x, person.target.y};
  if (person.marked) drawn.head = HeadPixels(person, answered.answer);
  if (LooksInside(person)) drawn.target = person.target;
  drawn.label = Label(answered, index);
  drawn.heatmap = person.heatmap;
  return drawn;
}

}  // namespace

std::string TableText(const Answered& answered, const GazeEngineInfo& info) {
  std::string text = Heading(answered, info);
  const std::vector<GazePerson>& people = answered.answer.people;
  if (people.empty()) return text + fmt::format("nobody: {}\n", answered.answer.empty_reason);
  text += fmt::format("{:<8}{:<22}{:<18}{:<8}{}\n", "person", "head x1,y1,x2,y2", "looks at x, y", "score", "in frame");
  for (size_t i = 0; i < people.size(); ++i) text += PersonRow(i + 1, people[i], answered.answer);
  return text;
}

std::vector<std::string> WarningTexts(const Answered& answered) {
  std::vector<std::string> texts;
  for (const std::string& warning : answered.picture->warnings) {
    texts.push_back(fmt::format("{}: {}", answered.name, warning));
  }
  for (const Warning& warning : answered.answer.warnings) {
    texts.push_back(fmt::format("{}: {}: {}", answered.name, warning.code, warning.message));
  }
  return texts;
}

std::string DocumentLine(std::string_view document, std::string_view file, std::string_view status) {
  const std::string name =
      nlohmann::json(std::string(file)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return fmt::format("{{\"file\":{},\"status\":\"{}\",{}", name, status, document.substr(document.find('{') + 1));
}

Result<std::vector<std::byte>> OverlayFile(const Answered& answered, const GazeEngineInfo& info, bool blend_heatmap) {
  std::vector<OverlayPerson> people;
  for (size_t i = 0; i < answered.answer.people.size(); ++i) people.push_back(Drawn(answered, i));
  return DrawOverlay(answered.picture->image, people, {blend_heatmap, WeightsMark(info)});
}

std::vector<std::byte> HeatmapFile(const GazeAnswer& answer) {
  const auto count = static_cast<int64_t>(answer.people.size());
  std::vector<float> heatmaps, inouts;
  for (const GazePerson& person : answer.people) {
    heatmaps.insert(heatmaps.end(), person.heatmap.begin(), person.heatmap.end());
    if (person.inout) inouts.push_back(*person.inout);
  }
  std::vector<NpzArray> arrays = {{"heatmap", {count, kHeatmapSize, kHeatmapSize}, heatmaps}};
  if (inouts.size() == answer.people.size()) arrays.push_back({"inout", {count}, inouts});
  return EncodeNpz(arrays);
}

}  // namespace sightline
