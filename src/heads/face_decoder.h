// From CenterFace's maps to faces, and from faces to heads. Pure functions; any thread.
#pragma once

#include <vector>

#include "heads/centerface.h"
#include "heads/heads.h"
#include "media/media.h"

namespace sightline {

struct Face {
  Box box;  // pixels of the picture; may reach over its edges
  double score = 0;
};

// Faces of all cells with heat above `threshold` whose box is finite and overlaps the picture, best first. A picture of
// picture_width x picture_height pixels was stretched over the whole grid of `maps`.
// At most 4096 cells, the best, are looked at.
// Source: decode() in https://github.com/Star-Clouds/CenterFace, prj-python/centerface.py.
std::vector<Face> DecodeFaces(const FaceMaps& maps, double threshold, int picture_width, int picture_height);

// Non-maximum suppression: drops every face that overlaps a better one with an IoU above `iou_limit`.
// `faces` are sorted best first.
std::vector<Face> SuppressOverlaps(const std::vector<Face>& faces, double iou_limit);

// A face box reaches from brow to chin and from cheek to cheek; the head around it is wider by 0.28 of the face's width
// on each side, higher by 0.40 of its height above and 0.08 below (measured by eye on photographs). Both boxes are cut
// at the picture's edges.
Head WidenToHead(const Face& face, int picture_width, int picture_height);

}  // namespace sightline
