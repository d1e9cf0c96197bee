#include <algorithm>
#include <cmath>
#include <new>

#include "media/canvas.h"

namespace sightline {
namespace {

constexpr int kHeatSide = 64;

// CSS colours that black text reads well on and that differ from one another: lime, tomato, cyan, fuchsia, yellow,
// orange, springgreen, hotpink, deepskyblue, khaki, plum, yellowgreen.
constexpr Colour kColours[] = {{0.00, 1.00, 0.00}, {1.00, 0.39, 0.28}, {0.00, 1.00, 1.00}, {1.00, 0.35, 1.00},
                               {1.00, 1.00, 0.00}, {1.00, 0.65, 0.00}, {0.00, 1.00, 0.50}, {1.00, 0.41, 0.71},
                               {0.00, 0.75, 1.00}, {0.94, 0.90, 0.55}, {0.87, 0.63, 0.87}, {0.60, 0.80, 0.20}};
constexpr Colour kBlack = {0, 0, 0};
constexpr Colour kWhite = {1, 1, 1};

// How many canvas pixels a picture pixel becomes: pictures under 400 pixels are enlarged, ones over 4096 reduced.
double CanvasScale(int width, int height) {
  constexpr double kShortestSide = 400, kLongestSide = 4096;
  const double enlarge = std::max(1.0, kShortestSide / std::min(width, height));
  return std::min(enlarge, kLongestSide / std::max(width, height));
}

Image Scaled(const Image& image, double scale) {
  const auto side = [scale](int pixels) { return std::max(1, static_cast<int>(std::lround(pixels * scale))); };
  return ResizePillowBilinear(image, side(image.width), side(image.height));
}

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

double Overlap(const Box& a, const Box& b) {
  return std::max(0.0, std::min(a.x2, b.x2) - std::max(a.x1, b.x1)) *
         std::max(0.0, std::min(a.y2, b.y2) - std::max(a.y1, b.y1));
}

Point Center(const Box& box) { return {(box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2}; }

// Where the line from the centre of a box to a point leaves the box; the centre when the point is inside.
Point Exit(const Box& box, Point to) {
  const Point from = Center(box);
  const double dx = to.x - from.x, dy = to.y - from.y;
  const double part = std::min(std::abs(dx) > 0 ? (box.x2 - box.x1) / 2 / std::abs(dx) : 1.0,
                               std::abs(dy) > 0 ? (box.y2 - box.y1) / 2 / std::abs(dy) : 1.0);
  if (part >= 1) return from;
  return {from.x + part * dx, from.y + part * dy};
}

// Draws one overlay. Lengths grow with the square root of the picture's area, so that overlays of all sizes look alike.
class OverlayPainter {
 public:
  OverlayPainter(const Image& image, std::span<const OverlayPerson> people, const OverlayOptions& options)
      : scale_(CanvasScale(image.width, image.height)),
        canvas_(scale_ == 1 ? Canvas(image) : Canvas(Scaled(image, scale_))),
        people_(people),
        options_(options),
        unit_(std::sqrt(static_cast<double>(canvas_.width()) * canvas_.height())),
        line_width_(std::max(1.5, 0.0028 * unit_)),
        largest_font_(std::max(12.0, 0.021 * unit_)),
        smallest_font_(std::max(10.5, 0.0095 * unit_)),
        bottom_(canvas_.height()) {
    if (!options_.banner.empty()) bottom_ = std::max(0.0, bottom_ - 1.3 * Canvas::LabelHeight(largest_font_));
    for (const OverlayPerson& person : people) heads_.push_back(OnCanvas(person.head));
  }

  Result<Image> Paint() {
    if (options_.blend_heatmaps) PaintHeat();
    for (size_t i = 0; i < people_.size(); ++i) PaintArrow(i);
    for (size_t i = 0; i < people_.size(); ++i) canvas_.DrawBox(heads_[i], ColourOf(i), line_width_);
    for (size_t i = 0; i < people_.size(); ++i) PaintOutMark(i);
    for (size_t i = 0; i < people_.size(); ++i) PaintLabel(i);
    if (!options_.banner.empty()) PaintBanner();
    return canvas_.Finish();
  }

 private:
  static Colour ColourOf(size_t person) { return kColours[person % std::size(kColours)]; }

  Point OnCanvas(Point point) const {
    return {std::fmax(0, std::fmin(point.x * scale_, canvas_.width())),
            std::fmax(0, std::fmin(point.y * scale_, canvas_.height()))};
  }
  Box OnCanvas(const Box& box) const {
    const Point a = OnCanvas(Point{box.x1, box.y1}), b = OnCanvas(Point{box.x2, box.y2});
    return {std::min(a.x, b.x), std::min(a.y, b.y), std::max(a.x, b.x), std::max(a.y, b.y)};
  }

  void PaintHeat() {
    const std::vector<float> heat = LargestHeat(people_);
    if (heat.empty()) return;
    canvas_.BlendHeat(EnlargeBilinear(heat, kHeatSide, kHeatSide, canvas_.width(), canvas_.height()));
  }

  void PaintBanner() {
    const Box bar = {0, bottom_, static_cast<double>(canvas_.width()), static_cast<double>(canvas_.height())};
    canvas_.DrawLabel(bar, options_.banner, largest_font_, kBlack, 0.7, kWhite);
  }

  void PaintArrow(size_t i) {
    if (!people_[i].target) return;
    const Point target = OnCanvas(*people_[i].target);
    canvas_.DrawArrow(Exit(heads_[i], target), target, ColourOf(i), line_width_);
  }

  // A cross in a disc on the lower right corner of the head box.
  void PaintOutMark(size_t i) {
    if (people_[i].target) return;
    const Box& head = heads_[i];
    const double size = std::min(head.x2 - head.x1, head.y2 - head.y1);
    const double radius = std::clamp(0.16 * size, 2.5 * line_width_, 5 * line_width_);
    const Point center = {std::clamp(head.x2, radius, std::max(radius, canvas_.width() - radius)),
                          std::clamp(head.y2, radius, std::max(radius, bottom_ - radius))};
    canvas_.DrawCross(center, radius, ColourOf(i));
    taken_.push_back({center.x - radius, center.y - radius, center.x + radius, center.y + radius});
  }

  void PaintLabel(size_t i) {
    if (people_[i].label.empty()) return;
    const double font = std::clamp((heads_[i].x2 - heads_[i].x1) / 6, smallest_font_, largest_font_);
    const Box bar = PlaceLabel(i, canvas_.LabelWidth(people_[i].label, font), Canvas::LabelHeight(font));
    taken_.push_back(bar);
    canvas_.DrawLabel(bar, people_[i].label, font, ColourOf(i), 0.88, kBlack);
  }

  // The place beside the head box that hides least of other labels, marks and heads; inside the picture, above the
  // banner.
  Box PlaceLabel(size_t i, double width, double height) const {
    width = std::min<double>(width, canvas_.width());
    height = std::min(height, bottom_);
    const Box& head = heads_[i];
    const double gap = line_width_, middle = Center(head).x - width / 2;
    const Point corners[] = {{head.x1 - gap / 2, head.y1 - gap - height},
                             {middle, head.y1 - gap - height},
                             {head.x1 - gap / 2, head.y2 + gap},
                             {middle, head.y2 + gap},
                             {head.x2 + gap, head.y1},
                             {head.x1 - gap - width, head.y1},
                             {middle, head.y1 + gap},
                             {middle, head.y2 - gap - height}};
    Box best;
    double least = 0;
    for (size_t k = 0; k < std::size(corners); ++k) {
      const double x = std::clamp(corners[k].x, 0.0, canvas_.width() - width);
      const double y = std::clamp(corners[k].y, 0.0, bottom_ - height);
      const Box bar = {x, y, x + width, y + height};
      const double hidden = Hidden(bar) + 0.02 * static_cast<double>(k) * width * height;
      if (k > 0 && hidden >= least) continue;
      best = bar;
      least = hidden;
    }
    return best;
  }

  double Hidden(const Box& bar) const {
    double area = 0;
    for (const Box& box : taken_) area += 4 * Overlap(bar, box);
    for (const Box& head : heads_) area += Overlap(bar, head);
    return area;
  }

  double scale_;
  Canvas canvas_;
  std::span<const OverlayPerson> people_;
  const OverlayOptions& options_;
  double unit_, line_width_, largest_font_, smallest_font_;
  double bottom_;           // where the banner begins; labels stay above it
  std::vector<Box> heads_;  // on the canvas
  std::vector<Box> taken_;  // labels and marks drawn so far
};

}  // namespace

Result<std::vector<std::byte>> DrawOverlay(const Image& image, std::span<const OverlayPerson> people,
                                           const OverlayOptions& options) try {
  SIGHTLINE_ASSIGN_OR_RETURN(const Image drawn, OverlayPainter(image, people, options).Paint());
  return EncodePng(drawn);
} catch (const std::bad_alloc&) {
  return Fail(Code::kOutOfMemory, "there is not enough memory to draw the overlay");
}

}  // namespace sightline
