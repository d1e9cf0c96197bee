#include "media/overlay_sheet.h"

#include <algorithm>
#include <cmath>

namespace sightline {
namespace {

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

double Overlap(const Box& a, const Box& b) {
  return std::max(0.0, std::min(a.x2, b.x2) - std::max(a.x1, b.x1)) *
         std::max(0.0, std::min(a.y2, b.y2) - std::max(a.y1, b.y1));
}

// Of a picture as large as the canvas.
double UnitOf(const Canvas& canvas) { return std::sqrt(static_cast<double>(canvas.width()) * canvas.height()); }

}  // namespace

Colour OverlayColour(size_t index) { return kColours[index % std::size(kColours)]; }

Point Center(const Box& box) { return {(box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2}; }

OverlaySheet::OverlaySheet(const Image& image, std::string banner)
    : scale_(CanvasScale(image.width, image.height)),
      canvas_(scale_ == 1 ? Canvas(image) : Canvas(Scaled(image, scale_))),
      banner_(std::move(banner)),
      line_width_(std::max(1.5, 0.0028 * UnitOf(canvas_))),
      largest_font_(std::max(12.0, 0.021 * UnitOf(canvas_))),
      smallest_font_(std::max(10.5, 0.0095 * UnitOf(canvas_))),
      bottom_(canvas_.height()) {
  if (!banner_.empty()) bottom_ = std::max(0.0, bottom_ - 1.3 * Canvas::LabelHeight(largest_font_));
}

Point OverlaySheet::OnCanvas(Point point) const {
  return {std::fmax(0, std::fmin(point.x * scale_, canvas_.width())),
          std::fmax(0, std::fmin(point.y * scale_, canvas_.height()))};
}

Box OverlaySheet::OnCanvas(const Box& box) const {
  const Point a = OnCanvas(Point{box.x1, box.y1}), b = OnCanvas(Point{box.x2, box.y2});
  return {std::min(a.x, b.x), std::min(a.y, b.y), std::max(a.x, b.x), std::max(a.y, b.y)};
}

void OverlaySheet::PaintLabel(const Box& box, std::string_view text, Colour colour) {
  if (text.empty()) return;
  const double font = std::clamp((box.x2 - box.x1) / 6, smallest_font_, largest_font_);
  const Box bar = PlaceLabel(box, canvas_.LabelWidth(text, font), Canvas::LabelHeight(font));
  marks_.push_back(bar);
  canvas_.DrawLabel(bar, text, font, colour, 0.88, kBlack);
}

Box OverlaySheet::PlaceLabel(const Box& box, double width, double height) const {
  width = std::min<double>(width, canvas_.width());
  height = std::min(height, bottom_);
  const double gap = line_width_, middle = Center(box).x - width / 2;
  const Point corners[] = {{box.x1 - gap / 2, box.y1 - gap - height},
                           {middle, box.y1 - gap - height},
                           {box.x1 - gap / 2, box.y2 + gap},
                           {middle, box.y2 + gap},
                           {box.x2 + gap, box.y1},
                           {box.x1 - gap - width, box.y1},
                           {middle, box.y1 + gap},
                           {middle, box.y2 - gap - height}};
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

double OverlaySheet::Hidden(const Box& bar) const {
  double area = 0;
  for (const Box& mark : marks_) area += 4 * Overlap(bar, mark);
  for (const Box& thing : things_) area += Overlap(bar, thing);
  return area;
}

Result<std::vector<std::byte>> OverlaySheet::Finish() {
  if (!banner_.empty()) {
    const Box bar = {0, bottom_, static_cast<double>(canvas_.width()), static_cast<double>(canvas_.height())};
    canvas_.DrawLabel(bar, banner_, largest_font_, kBlack, 0.7, kWhite);
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const Image drawn, canvas_.Finish());
  return EncodePng(drawn);
}

}  // namespace sightline
