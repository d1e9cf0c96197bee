#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pipeline/pipeline.h"

namespace sightline {
namespace {

// Normalised boxes may reach past the picture by up to its own size; beyond that they can only be pixels.
constexpr double kLargestNormalized = 2.0;

std::string Text(const Box& box) { return fmt::format("[{:g}, {:g}, {:g}, {:g}]", box.x1, box.y1, box.x2, box.y2); }

template <typename Predicate>
bool All(const Box& box, Predicate predicate) {
  return predicate(box.x1) && predicate(box.y1) && predicate(box.x2) && predicate(box.y2);
}

Status CheckForm(const Box& box, const std::string& param) {
  if (!All(box, [](double v) { return std::isfinite(v); })) {
    return Fail(Code::kInvalidBox, fmt::format("{} is {}, expected four finite numbers", param, Text(box)), param);
  }
  if (box.x2 <= box.x1 || box.y2 <= box.y1) {
    return Fail(Code::kInvalidBox,
                fmt::format("{} is {}, expected [x1, y1, x2, y2] with x1 < x2 and y1 < y2", param, Text(box)), param);
  }
  return {};
}

Status CheckUnits(const Box& box, BoxUnits units, int width, int height, const std::string& param) {
  if (units == BoxUnits::kNormalized && !All(box, [](double v) { return std::abs(v) <= kLargestNormalized; })) {
    return Fail(
        Code::kUnitsMismatch,
        fmt::format("{} is {}, given as normalized but with values > 1: did you mean pixels?", param, Text(box)),
        param);
  }
  // In a small picture a box of a pixel or two is a whole patch cell, and may be meant.
  const int side = std::max(width, height);
  const double corner = side > 2 * kGazeGrid ? kLargestNormalized : side > kGazeGrid ? 1.0 : 0.0;
  if (units == BoxUnits::kPixels && All(box, [&](double v) { return std::abs(v) <= corner; })) {
    return Fail(Code::kUnitsMismatch,
                fmt::format("{} is {}, given in pixels of a {}x{} picture but within {:g} of its corner: did you mean "
                            "normalized?",
                            param, Text(box), width, height, corner),
                param);
  }
  return {};
}

Box Normalize(const Box& box, BoxUnits units, int width, int height) {
  if (units == BoxUnits::kNormalized) return box;
  return {box.x1 / width, box.y1 / height, box.x2 / width, box.y2 / height};
}

// Half to even, as Python's round.
double Cell(double fraction) { return std::nearbyint(fraction * kGazeGrid); }

struct Span {
  int first = 0, last = 0;  // [first, last)
};

Span WidenToOneCell(Span span, double low, double high) {
  if (span.last > span.first) return span;
  const int cell = std::clamp(static_cast<int>(std::floor((low + high) / 2 * kGazeGrid)), 0, kGazeGrid - 1);
  return {cell, cell + 1};
}

// Python's seq[start:stop] over 32 elements.
Span PythonSlice(double start, double stop) {
  const auto resolve = [](double index) {
    if (index < 0) index += kGazeGrid;
    return static_cast<int>(std::clamp(index, 0.0, double{kGazeGrid}));
  };
  return {resolve(start), resolve(stop)};
}

void Mark(Span rows, Span columns, HeadRegion* region) {
  region->mask.fill(0);
  for (int y = rows.first; y < rows.last; ++y) {
    for (int x = columns.first; x < columns.last; ++x) region->mask[static_cast<size_t>(y * kGazeGrid + x)] = 1;
  }
  region->cells = static_cast<int>(std::ranges::count(region->mask, 1));
}

}  // namespace

Result<HeadRegion> MarkHead(const Box& box, BoxUnits units, int width, int height, const std::string& param,
                            std::vector<Warning>* warnings) {
  SIGHTLINE_RETURN_IF_ERROR(CheckForm(box, param));
  SIGHTLINE_RETURN_IF_ERROR(CheckUnits(box, units, width, height, param));
  const Box whole = Normalize(box, units, width, height);
  const auto clip = [](double v) { return std::clamp(v, 0.0, 1.0); };
  HeadRegion region;
  region.normalized = {clip(whole.x1), clip(whole.y1), clip(whole.x2), clip(whole.y2)};
  const Box& used = region.normalized;
  if (used.x2 <= used.x1 || used.y2 <= used.y1) {
    return Fail(Code::kBoxOutside,
                fmt::format("{} is {}, wholly outside the {}x{} picture", param, Text(box), width, height), param);
  }
  if (used.x1 != whole.x1 || used.y1 != whole.y1 || used.x2 != whole.x2 || used.y2 != whole.y2) {
    warnings->push_back(
        {"box_clipped",
         fmt::format("{} is {}, partly outside the {}x{} picture: clipped to it", param, Text(box), width, height),
         param});
  }
  const Span rows{static_cast<int>(Cell(used.y1)), static_cast<int>(Cell(used.y2))};
  const Span columns{static_cast<int>(Cell(used.x1)), static_cast<int>(Cell(used.x2))};
  Mark(WidenToOneCell(rows, used.y1, used.y2), WidenToOneCell(columns, used.x1, used.x2), &region);
  if (rows.first == rows.last || columns.first == columns.last) {
    warnings->push_back(
        {"box_widened",
         fmt::format("{} is {}, smaller than 1/32 of the picture: widened to one cell", param, Text(box)), param});
  }
  return region;
}

Result<HeadRegion> MarkHeadLikeReference(const std::optional<Box>& box, BoxUnits units, int width, int height,
                                         const std::string& param) {
  HeadRegion region;
  region.mask.fill(0);
  if (!box) return region;
  if (!All(*box, [](double v) { return std::isfinite(v); })) {
    return Fail(Code::kInvalidBox, fmt::format("{} is {}, expected four finite numbers", param, Text(*box)), param);
  }
  const Box n = region.normalized = Normalize(*box, units, width, height);
  Mark(PythonSlice(Cell(n.y1), Cell(n.y2)), PythonSlice(Cell(n.x1), Cell(n.x2)), &region);
  return region;
}

}  // namespace sightline
