#include <algorithm>
#include <cmath>
#include <new>

#include "media/overlay_sheet.h"

namespace sightline {
namespace {

constexpr int kHeatSide = 64;

// The largest value over all persons; empty when nobody has a map.
std::vector<float> LargestHeat(std::span<const OverlayPerson> people) {
  std::vector<float> heat;
  for (const OverlayPerson& person : people) {
    if (person.heatmap.size() != kHeatSide * kHeatSide) continue;
    heat.resize(person.heatmap.size());
    std::ranges::transform(heat, person.heatmap, heat.begin(), [](float a, float b) { return std::max(a, b); });
  }
  return heat;
}

// Where the line from the centre of a box to a point leaves the box; the centre when the point is inside.
Point Exit(const Box& box, Point to) {
  const Point from = Center(box);
  const double dx = to.x - from.x, dy = to.y - from.y;
  const double part = std::min(std::abs(dx) > 0 ? (box.x2 - box.x1) / 2 / std::abs(dx) : 1.0,
                               std::abs(dy) > 0 ? (box.y2 - box.y1) / 2 / std::abs(dy) : 1.0);
  if (part >= 1) return from;
  return {from.x + part * dx, from.y + part * dy};
}

class GazePainter {
 public:
  GazePainter(const Image& image, std::span<const OverlayPerson> people, const OverlayOptions& options)
      : sheet_(image, options.banner), people_(people), blend_heatmaps_(options.blend_heatmaps) {
    for (const OverlayPerson& person : people) heads_.push_back(sheet_.OnCanvas(person.head));
    for (const Box& head : heads_) sheet_.AddThing(head);
  }

  Result<std::vector<std::byte>> Paint() {
    if (blend_heatmaps_) PaintHeat();
    for (size_t i = 0; i < people_.size(); ++i) PaintArrow(i);
    for (size_t i = 0; i < people_.size(); ++i) {
      sheet_.canvas().DrawBox(heads_[i], OverlayColour(i), sheet_.line_width());
    }
    for (size_t i = 0; i < people_.size(); ++i) PaintOutMark(i);
    for (size_t i = 0; i < people_.size(); ++i) sheet_.PaintLabel(heads_[i], people_[i].label, OverlayColour(i));
    return sheet_.Finish();
  }

 private:
  void PaintHeat() {
    const std::vector<float> heat = LargestHeat(people_);
    if (heat.empty()) return;
    Canvas& canvas = sheet_.canvas();
    canvas.BlendHeat(EnlargeBilinear(heat, kHeatSide, kHeatSide, canvas.width(), canvas.height()));
  }

  void PaintArrow(size_t i) {
    if (!people_[i].target) return;
    const Point target = sheet_.OnCanvas(*people_[i].target);
    sheet_.canvas().DrawArrow(Exit(heads_[i], target), target, OverlayColour(i), sheet_.line_width());
  }

  // A cross in a disc on the lower right corner of the head box.
  void PaintOutMark(size_t i) {
    if (people_[i].target) return;
    const Box& head = heads_[i];
    const double size = std::min(head.x2 - head.x1, head.y2 - head.y1);
    const double radius = std::clamp(0.16 * size, 2.5 * sheet_.line_width(), 5 * sheet_.line_width());
    const Point center = {std::clamp(head.x2, radius, std::max(radius, sheet_.width() - radius)),
                          std::clamp(head.y2, radius, std::max(radius, sheet_.bottom() - radius))};
    sheet_.canvas().DrawCross(center, radius, OverlayColour(i));
    sheet_.AddMark({center.x - radius, center.y - radius, center.x + radius, center.y + radius});
  }

  OverlaySheet sheet_;
  std::span<const OverlayPerson> people_;
  const bool blend_heatmaps_;
  std::vector<Box> heads_;  // on the canvas
};

// Boxes and points; a colour for each label.
class PlacePainter {
 public:
  PlacePainter(const Image& image, std::span<const OverlayPlace> places, const std::string& banner)
      : sheet_(image, banner), places_(places) {
    for (const OverlayPlace& place : places) {
      boxes_.push_back(place.point ? DiscAt(sheet_.OnCanvas(*place.point)) : sheet_.OnCanvas(place.box));
      sheet_.AddThing(boxes_.back());
    }
  }

  Result<std::vector<std::byte>> Paint() {
    for (size_t i = 0; i < places_.size(); ++i) {
      const Colour colour = OverlayColour(places_[i].group);
      if (places_[i].point) {
        sheet_.canvas().DrawDisc(Center(boxes_[i]), radius(), colour);
      } else {
        sheet_.canvas().DrawBox(boxes_[i], colour, sheet_.line_width());
      }
    }
    for (size_t i = 0; i < places_.size(); ++i) {
      sheet_.PaintLabel(boxes_[i], places_[i].label, OverlayColour(places_[i].group));
    }
    return sheet_.Finish();
  }

 private:
  double radius() const { return 2.5 * sheet_.line_width(); }
  Box DiscAt(Point center) const {
    return {center.x - radius(), center.y - radius(), center.x + radius(), center.y + radius()};
  }

  OverlaySheet sheet_;
  std::span<const OverlayPlace> places_;
  std::vector<Box> boxes_;  // on the canvas; of points their discs
};

tl::unexpected<Error> NoMemory() { return Fail(Code::kOutOfMemory, "there is not enough memory to draw the overlay"); }

}  // namespace

Result<std::vector<std::byte>> DrawOverlay(const Image& image, std::span<const OverlayPerson> people,
                                           const OverlayOptions& options) try {
  return GazePainter(image, people, options).Paint();
} catch (const std::bad_alloc&) {
  return NoMemory();
}

Result<std::vector<std::byte>> DrawPlaces(const Image& image, std::span<const OverlayPlace> places,
                                          const std::string& banner) try {
  return PlacePainter(image, places, banner).Paint();
} catch (const std::bad_alloc&) {
  return NoMemory();
}

}  // namespace sightline
