// Overlap of boxes.
#pragma once

#include "media/media.h"

namespace sightline {

// Intersection over union; 0 where they do not meet.
double Iou(const Box& a, const Box& b);

}  // namespace sightline
