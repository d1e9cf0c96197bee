// A picture to draw on, with the few shapes an overlay needs. The drawing library stays in canvas.cc.
#pragma once

#include <memory>
#include <string_view>

#include "media/media.h"

namespace sightline {

struct Colour {
  double red, green, blue;  // 0..1
};

class Canvas {
 public:
  explicit Canvas(const Image& image);
  ~Canvas();

  int width() const;
  int height() const;

  // Lays colours over the picture, from clear at 0 over blue and yellow to red at 1. `values` is [height, width].
  void BlendHeat(std::span<const float> values);

  // Lines and marks have a dark edge, so that they show on any ground.
  void DrawBox(const Box& box, Colour colour, double line_width);
  void DrawArrow(Point from, Point to, Colour colour, double line_width);
  void DrawDisc(Point center, double radius, Colour colour);
  void DrawCross(Point center, double radius, Colour colour);  // in a disc

  // The size of a bar that holds one line of text.
  double LabelWidth(std::string_view text, double font_size) const;
  static double LabelHeight(double font_size);
  // A filled bar with text in its middle; text that is too long ends with an ellipsis, where even that does not fit
  // there is no text. Bytes that are not UTF-8 become question marks.
  void DrawLabel(const Box& bar, std::string_view text, double font_size, Colour ground, double opacity, Colour ink);

  // kOutOfMemory or kInternal when any call before failed.
  Result<Image> Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sightline
