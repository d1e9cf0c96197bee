#include "pipeline/locate_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sightline {
namespace {

// v / 255 in float32, then (v - 0.5) / 0.5: torchvision's to_tensor and normalize.
std::array<float, 256> MakeNormalized() {
  std::array<float, 256> table{};
  for (size_t i = 0; i < table.size(); ++i) table[i] = (static_cast<float>(i) / 255.0f - 0.5f) / 0.5f;
  return table;
}

std::vector<float> Patches(const Image& image, PatchGrid grid) {
  static const std::array<float, 256> kNormalized = MakeNormalized();
  std::vector<float> patches(static_cast<size_t>(grid.patches()) * kPatchValues);
  float* out = patches.data();
  for (const int32_t patch : MergeOrder(grid)) {
    const int top = patch / grid.width * kPatchSize, left = patch % grid.width * kPatchSize;
    for (size_t channel = 0; channel < 3; ++channel) {
      for (int y = 0; y < kPatchSize; ++y) {
        const uint8_t* pixel = &image.rgb[3 * (static_cast<size_t>(top + y) * static_cast<size_t>(image.width) +
                                               static_cast<size_t>(left))];
        for (int x = 0; x < kPatchSize; ++x, pixel += 3) *out++ = kNormalized[pixel[channel]];
      }
    }
  }
  return patches;
}

}  // namespace

Result<PatchGrid> PlanGrid(int width, int height, const LocateScaling& scaling, const std::string& param) {
  if (scaling.grid) return *scaling.grid;
  const RescalePlan plan = PlanRescale(width, height, scaling.token_limit);
  const PatchGrid grid{plan.height / kPatchSize, plan.width / kPatchSize};
  if (grid.height >= kMaxGridSide || grid.width >= kMaxGridSide) {
    return Fail(
        Code::kAspectTooExtreme,
        fmt::format("{} of {}x{} pixels would be {}x{} patches, expected fewer than {} on a side; crop it or give "
                    "a grid",
                    param, width, height, grid.width, grid.height, kMaxGridSide),
        param);
  }
  return grid;
}

Result<LocatePicture> PrepareLocatePicture(const Image& image, const LocateScaling& scaling, const std::string& param) {
  // The official scaling comes first even where the result is then pressed into a fixed grid, as the p150a server does.
  LocatePicture picture;
  SIGHTLINE_ASSIGN_OR_RETURN(picture.grid, PlanGrid(image.width, image.height, scaling, param));
  const RescalePlan plan = PlanRescale(image.width, image.height, scaling.token_limit);
  Image scaled = ResizePillowBicubic(image, plan.step_width, plan.step_height);
  scaled = ResizePillowBicubic(scaled, plan.width, plan.height);
  scaled = ResizePillowBicubic(scaled, picture.grid.width * kPatchSize, picture.grid.height * kPatchSize);
  picture.patches = Patches(scaled, picture.grid);
  return picture;
}

}  // namespace sightline
