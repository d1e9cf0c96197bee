#include <fmt/format.h>

#include <map>

#include "server/server.h"

namespace sightline {

Result<std::vector<std::byte>> LocateOverlay(const DecodedImage& picture, const LocateAnswer& answer,
                                             const LocateEngineInfo& info) {
  std::map<std::string, size_t> groups;  // by label
  std::vector<OverlayPlace> drawn;
  for (const LocatePlace& place : answer.places) {
    const std::string label = place.finding.label.value_or("");
    OverlayPlace& next = drawn.emplace_back();
    next.box = place.box;
    if (place.finding.kind == LocateFinding::Kind::kPoint) next.point = place.point;
    next.group = groups.emplace(label, groups.size()).first->second;
    next.label = fmt::format("{}{}{:.2f}", label, label.empty() ? "" : " ", place.finding.score);
  }
  return DrawPlaces(picture.image, drawn, info.synthetic ? "synthetic weights" : "");
}

}  // namespace sightline
