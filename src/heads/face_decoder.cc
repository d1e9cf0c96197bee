#include "heads/face_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace sightline {
namespace {

constexpr size_t kMaxCandidates = 4096;

struct Candidate {
  size_t cell;
  float heat;
};

// Best first; equal ones stay in the grid's order, so that the result does not depend on the sort.
std::vector<Candidate> BestCells(const FaceMaps& maps, double threshold) {
  std::vector<Candidate> candidates;
  for (size_t cell = 0; cell < maps.heat.size(); ++cell) {
    if (static_cast<double>(maps.heat[cell]) > threshold) candidates.push_back({cell, maps.heat[cell]});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.heat > b.heat; });
  if (candidates.size() > kMaxCandidates) candidates.resize(kMaxCandidates);
  return candidates;
}

// `cell_width` and `cell_height` are in pixels of the picture.
Box FaceBox(const FaceMaps& maps, size_t cell, double cell_width, double cell_height) {
  const size_t cells = maps.heat.size();
  const size_t columns = static_cast<size_t>(maps.width);
  const double center_y = cell_height * (static_cast<double>(cell / columns) + 0.5 + maps.offset[cell]);
  const double center_x = cell_width * (static_cast<double>(cell % columns) + 0.5 + maps.offset[cells + cell]);
  const double half_height = cell_height * std::exp(static_cast<double>(maps.scale[cell])) / 2;
  const double half_width = cell_width * std::exp(static_cast<double>(maps.scale[cells + cell])) / 2;
  return {center_x - half_width, center_y - half_height, center_x + half_width, center_y + half_height};
}

Box CutAtEdges(const Box& box, double width, double height) {
  return {std::clamp(box.x1, 0.0, width), std::clamp(box.y1, 0.0, height), std::clamp(box.x2, 0.0, width),
          std::clamp(box.y2, 0.0, height)};
}

bool IsFinite(const Box& box) {
  return std::isfinite(box.x1) && std::isfinite(box.y1) && std::isfinite(box.x2) && std::isfinite(box.y2);
}

double Area(const Box& box) { return (box.x2 - box.x1) * (box.y2 - box.y1); }

double IntersectionOverUnion(const Box& a, const Box& b) {
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (width <= 0 || height <= 0) return 0;
  const double intersection = width * height;
  return intersection / (Area(a) + Area(b) - intersection);
}

}  // namespace

std::vector<Face> DecodeFaces(const FaceMaps& maps, double threshold, int picture_width, int picture_height) {
  std::vector<Face> faces;
  for (const Candidate& candidate : BestCells(maps, threshold)) {
    const Box box = FaceBox(maps, candidate.cell, static_cast<double>(picture_width) / maps.width,
                            static_cast<double>(picture_height) / maps.height);
    if (!IsFinite(box)) continue;
    const Box inside = CutAtEdges(box, picture_width, picture_height);
    if (inside.x2 - inside.x1 < 1 || inside.y2 - inside.y1 < 1) continue;  // less than a pixel is no face
    faces.push_back({box, std::min(static_cast<double>(candidate.heat), 1.0)});
  }
  return faces;
}

std::vector<Face> SuppressOverlaps(const std::vector<Face>& faces, double iou_limit) {
  std::vector<Face> kept;
  for (const Face& face : faces) {
    const bool overlaps = std::any_of(kept.begin(), kept.end(), [&](const Face& better) {
      return IntersectionOverUnion(face.box, better.box) > iou_limit;
    });
    if (!overlaps) kept.push_back(face);
  }
  return kept;
}

Head WidenToHead(const Face& face, int picture_width, int picture_height) {
  const double width = face.box.x2 - face.box.x1;
  const double height = face.box.y2 - face.box.y1;
  const Box wide = {face.box.x1 - 0.28 * width, face.box.y1 - 0.40 * height, face.box.x2 + 0.28 * width,
                    face.box.y2 + 0.08 * height};
  Head head;
  head.box = CutAtEdges(wide, picture_width, picture_height);
  head.face = CutAtEdges(face.box, picture_width, picture_height);
  head.score = face.score;
  head.clipped = wide.x1 < 0 || wide.y1 < 0 || wide.x2 > picture_width || wide.y2 > picture_height;
  return head;
}

}  // namespace sightline
