#include "media/canvas.h"

#include <cairo.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace sightline {
namespace {

constexpr double kFullTurn = 2 * std::numbers::pi;
constexpr double kLabelMargin = 0.4;   // of the font size, left and right of the text
constexpr double kLabelHeight = 1.45;  // of the font size
constexpr double kCapitals = 0.73;     // of the font size: height of a capital letter
constexpr std::string_view kEllipsis = "\u2026";

// Bytes of the UTF-8 character at the start of `text`; 0 when there is none (Unicode 15, table 3-7).
size_t CharacterLength(std::string_view text) {
  const auto byte = [text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto follows = [byte](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned lead = byte(0), second = byte(1);
  if (lead < 0x80) return text.empty() ? 0 : 1;
  if (lead >= 0xc2 && lead < 0xe0) return follows(1) ? 2 : 0;
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool surrogate = lead == 0xed && second >= 0xa0;
  const bool beyond = lead == 0xf4 && second >= 0x90;
  if (overlong || surrogate || beyond) return 0;
  if ((lead & 0xf0) == 0xe0) return follows(1) && follows(2) ? 3 : 0;
  if (lead >= 0xf0 && lead <= 0xf4) return follows(1) && follows(2) && follows(3) ? 4 : 0;
  return 0;
}

// The characters of `text` that can be drawn; Cairo fails on text that is not UTF-8. No label needs more than `limit`.
std::vector<std::string> Characters(std::string_view text, size_t limit = 200) {
  std::vector<std::string> characters;
  while (!text.empty() && characters.size() < limit) {
    const size_t length = CharacterLength(text);
    const bool control = static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7f;
    characters.emplace_back(length == 0 ? "?" : control ? " " : text.substr(0, length));
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  while (!characters.empty() && characters.back() == " ") characters.pop_back();
  return characters;
}

std::string Joined(std::span<const std::string> characters) {
  std::string text;
  for (const std::string& character : characters) text += character;
  return text;
}

struct HeatShade {
  Colour colour;
  double opacity;
};

// Blue over green and yellow to red, as gaze maps are usually shown; what is near 0 stays clear.
HeatShade ShadeOf(double value) {
  static constexpr std::array<Colour, 5> kStops = {
      {{0.10, 0.20, 0.75}, {0.00, 0.75, 0.90}, {0.25, 0.90, 0.30}, {1.00, 0.85, 0.00}, {1.00, 0.15, 0.05}}};
  constexpr double kStrongest = 0.72;
  const double place = value * (kStops.size() - 1);
  const size_t low = std::min(static_cast<size_t>(place), kStops.size() - 2);
  const double part = place - static_cast<double>(low);
  const Colour &a = kStops[low], &b = kStops[low + 1];
  return {{std::lerp(a.red, b.red, part), std::lerp(a.green, b.green, part), std::lerp(a.blue, b.blue, part)},
          kStrongest * (1 - (1 - value) * (1 - value))};
}

}  // namespace

struct Canvas::State {
  int width, height;
  cairo_surface_t* surface;
  cairo_t* cairo;

  State(int canvas_width, int canvas_height)
      : width(canvas_width),
        height(canvas_height),
        surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height)),
        cairo(cairo_create(surface)) {
    cairo_set_line_join(cairo, CAIRO_LINE_JOIN_ROUND);
    cairo_set_line_cap(cairo, CAIRO_LINE_CAP_ROUND);
    cairo_select_font_face(cairo, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_BOLD);
  }
  ~State() {
    cairo_destroy(cairo);
    cairo_surface_destroy(surface);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // The pixels of a row as 0x00RRGGBB.
  uint32_t* Row(int y) const {
    unsigned char* row = cairo_image_surface_get_data(surface) + y * cairo_image_surface_get_stride(surface);
    return reinterpret_cast<uint32_t*>(row);  // Cairo aligns rows for it
  }
  bool ok() const {
    return cairo_status(cairo) == CAIRO_STATUS_SUCCESS && cairo_surface_status(surface) == CAIRO_STATUS_SUCCESS;
  }
  void SetColour(Colour colour, double opacity = 1) {
    cairo_set_source_rgba(cairo, colour.red, colour.green, colour.blue, opacity);
  }
  void SetEdge() { SetColour({0, 0, 0}, 0.6); }
  // How far the dark edge of a line reaches to each side.
  static double EdgeOf(double line_width) { return std::max(1.0, line_width * 0.4); }
  // Strokes the current path with its edge.
  void Stroke(Colour colour, double line_width) {
    SetEdge();
    cairo_set_line_width(cairo, line_width + 2 * EdgeOf(line_width));
    cairo_stroke_preserve(cairo);
    SetColour(colour);
    cairo_set_line_width(cairo, line_width);
    cairo_stroke(cairo);
  }
  void RoundedBox(const Box& box, double radius) {
    radius = std::min({radius, (box.x2 - box.x1) / 2, (box.y2 - box.y1) / 2});
    cairo_new_sub_path(cairo);
    cairo_arc(cairo, box.x2 - radius, box.y1 + radius, radius, -kFullTurn / 4, 0);
    cairo_arc(cairo, box.x2 - radius, box.y2 - radius, radius, 0, kFullTurn / 4);
    cairo_arc(cairo, box.x1 + radius, box.y2 - radius, radius, kFullTurn / 4, kFullTurn / 2);
    cairo_arc(cairo, box.x1 + radius, box.y1 + radius, radius, kFullTurn / 2, kFullTurn * 3 / 4);
    cairo_close_path(cairo);
  }
  double TextWidth(const std::string& text, double font_size) {
    cairo_set_font_size(cairo, font_size);
    cairo_text_extents_t extents;
    cairo_text_extents(cairo, text.c_str(), &extents);
    return extents.x_advance;
  }
};

Canvas::Canvas(const Image& image) : state_(std::make_unique<State>(image.width, image.height)) {
  if (!state_->ok()) return;
  const uint8_t* rgb = image.rgb.data();
  for (int y = 0; y < image.height; ++y) {
    uint32_t* row = state_->Row(y);
    for (int x = 0; x < image.width; ++x, rgb += 3) {
      row[x] = static_cast<uint32_t>(rgb[0]) << 16 | static_cast<uint32_t>(rgb[1]) << 8 | rgb[2];
    }
  }
  cairo_surface_mark_dirty(state_->surface);
}

Canvas::~Canvas() = default;

int Canvas::width() const { return state_->width; }
int Canvas::height() const { return state_->height; }

void Canvas::BlendHeat(std::span<const float> values) {
  if (!state_->ok()) return;
  constexpr int kShades = 256;
  std::array<HeatShade, kShades> shades;
  for (int i = 0; i < kShades; ++i) shades[static_cast<size_t>(i)] = ShadeOf(i / (kShades - 1.0));
  const auto mix = [](uint32_t channel, double colour, double opacity) {
    return static_cast<uint32_t>((channel & 255) * (1 - opacity) + 255 * colour * opacity + 0.5);
  };
  cairo_surface_flush(state_->surface);
  const float* value = values.data();
  for (int y = 0; y < height(); ++y) {
    uint32_t* row = state_->Row(y);
    for (int x = 0; x < width(); ++x) {
      const float level = std::fmax(0.0F, std::fmin(*value++, 1.0F)) * (kShades - 1);
      const auto& [colour, opacity] = shades[static_cast<size_t>(level + 0.5F)];
      row[x] = mix(row[x] >> 16, colour.red, opacity) << 16 | mix(row[x] >> 8, colour.green, opacity) << 8 |
               mix(row[x], colour.blue, opacity);
    }
  }
  cairo_surface_mark_dirty(state_->surface);
}

void Canvas::DrawBox(const Box& box, Colour colour, double line_width) {
  state_->RoundedBox(box, 2 * line_width);
  state_->Stroke(colour, line_width);
}

void Canvas::DrawArrow(Point from, Point to, Colour colour, double line_width) {
  const double length = std::hypot(to.x - from.x, to.y - from.y);
  cairo_t* cairo = state_->cairo;
  cairo_save(cairo);
  cairo_translate(cairo, to.x, to.y);
  cairo_rotate(cairo, std::atan2(to.y - from.y, to.x - from.x));
  // From here on the arrow points along x and ends at the origin.
  const double head = std::min(5 * line_width, length), half = 0.45 * head;
  cairo_move_to(cairo, -length, 0);
  cairo_line_to(cairo, -head, 0);
  state_->Stroke(colour, line_width);
  cairo_move_to(cairo, 0, 0);
  cairo_line_to(cairo, -head, half);
  cairo_line_to(cairo, -0.8 * head, 0);
  cairo_line_to(cairo, -head, -half);
  cairo_close_path(cairo);
  state_->SetEdge();
  cairo_set_line_width(cairo, 2 * State::EdgeOf(line_width));
  cairo_stroke_preserve(cairo);
  state_->SetColour(colour);
  cairo_fill(cairo);
  cairo_restore(cairo);
}

void Canvas::DrawDisc(Point center, double radius, Colour colour) {
  cairo_t* cairo = state_->cairo;
  cairo_arc(cairo, center.x, center.y, radius, 0, kFullTurn);
  state_->SetColour(colour);
  cairo_fill_preserve(cairo);
  state_->SetEdge();
  cairo_set_line_width(cairo, State::EdgeOf(radius * 0.3));
  cairo_stroke(cairo);
}

void Canvas::DrawCross(Point center, double radius, Colour colour) {
  cairo_t* cairo = state_->cairo;
  const double line_width = radius * 0.3, arm = radius * 0.45;
  DrawDisc(center, radius, colour);
  for (double slope : {-1.0, 1.0}) {
    cairo_move_to(cairo, center.x - arm, center.y - slope * arm);
    cairo_line_to(cairo, center.x + arm, center.y + slope * arm);
  }
  state_->SetColour({0, 0, 0});
  cairo_set_line_width(cairo, line_width);
  cairo_stroke(cairo);
}

double Canvas::LabelWidth(std::string_view text, double font_size) const {
  return state_->TextWidth(Joined(Characters(text)), font_size) + 2 * kLabelMargin * font_size;
}

double Canvas::LabelHeight(double font_size) { return kLabelHeight * font_size; }

void Canvas::DrawLabel(const Box& bar, std::string_view text, double font_size, Colour ground, double opacity,
                       Colour ink) {
  cairo_t* cairo = state_->cairo;
  std::vector<std::string> characters = Characters(text);
  const double room = bar.x2 - bar.x1 - 2 * kLabelMargin * font_size + 1;
  double width = state_->TextWidth(Joined(characters), font_size);
  while (width > room && characters.size() > 1) {
    characters.pop_back();
    characters.back() = kEllipsis;
    width = state_->TextWidth(Joined(characters), font_size);
  }
  state_->RoundedBox(bar, 0.2 * font_size);
  state_->SetColour(ground, opacity);
  cairo_fill(cairo);
  if (width > room) return;
  state_->SetColour(ink);
  cairo_move_to(cairo, (bar.x1 + bar.x2 - width) / 2, (bar.y1 + bar.y2 + kCapitals * font_size) / 2);
  cairo_show_text(cairo, Joined(characters).c_str());
  cairo_new_path(cairo);
}

Result<Image> Canvas::Finish() {
  cairo_surface_flush(state_->surface);
  if (!state_->ok()) {
    const bool memory = cairo_status(state_->cairo) == CAIRO_STATUS_NO_MEMORY;
    return memory ? Fail(Code::kOutOfMemory, "there is not enough memory to draw the overlay")
                  : Fail(Code::kInternal, "the overlay could not be drawn");
  }
  Image image{width(), height(), {}};
  image.rgb.reserve(static_cast<size_t>(width()) * static_cast<size_t>(height()) * 3);
  for (int y = 0; y < height(); ++y) {
    const uint32_t* row = state_->Row(y);
    for (int x = 0; x < width(); ++x) {
      for (int shift : {16, 8, 0}) image.rgb.push_back(static_cast<uint8_t>(row[x] >> shift));
    }
  }
  return image;
}

}  // namespace sightline
