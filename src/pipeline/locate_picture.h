// Pictures as MoonViT takes them.
#pragma once

#include <vector>

#include "media/media.h"
#include "models/models.h"
#include "pipeline/pipeline.h"

namespace sightline {

struct LocatePicture {
  PatchGrid grid;
  std::vector<float> patches;  // [grid.patches(), 588] in MergeOrder
};

// kAspectTooExtreme when a side would have kMaxGridSide patches or more. `param` names the picture in errors.
Result<PatchGrid> PlanGrid(int width, int height, const LocateScaling& scaling, const std::string& param);
Result<LocatePicture> PrepareLocatePicture(const Image& image, const LocateScaling& scaling, const std::string& param);

}  // namespace sightline
