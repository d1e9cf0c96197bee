// A picture with named boxes on it: what overlays of every kind share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "media/canvas.h"
#include "media/media.h"

namespace sightline {

// The `index`-th of twelve colours that black text reads well on and that differ from one another; then they repeat.
Colour OverlayColour(size_t index);
Point Center(const Box& box);

// A canvas in the size that an overlay of `image` has: pictures under 400 pixels are enlarged, ones over 4096 reduced.
// Lengths grow with the square root of the picture's area, so that overlays of all sizes look alike.
class OverlaySheet {
 public:
  // `banner`: text over the lower edge, or empty.
  OverlaySheet(const Image& image, std::string banner);

  Canvas& canvas() { return canvas_; }
  double width() const { return canvas_.width(); }
  double bottom() const { return bottom_; }  // where the banner begins
  double line_width() const { return line_width_; }

  // From pixels of the picture, into the canvas; corners are put in order.
  Point OnCanvas(Point point) const;
  Box OnCanvas(const Box& box) const;

  // What labels should not hide: `box` is a thing, or a label or mark that matters more.
  void AddThing(const Box& box) { things_.push_back(box); }
  void AddMark(const Box& box) { marks_.push_back(box); }

  // Writes `text` beside `box`, where it hides least of things, marks and earlier labels; inside the picture, above the
  // banner. Wider boxes have larger text.
  void PaintLabel(const Box& box, std::string_view text, Colour colour);

  // The banner, then the picture as a PNG file.
  Result<std::vector<std::byte>> Finish();

 private:
  Box PlaceLabel(const Box& box, double width, double height) const;
  double Hidden(const Box& bar) const;

  double scale_;
  Canvas canvas_;
  std::string banner_;
  double line_width_, largest_font_, smallest_font_;
  double bottom_;
  std::vector<Box> things_, marks_;  // on the canvas
};

}  // namespace sightline
