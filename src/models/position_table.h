// Resampling of learned position tables: bicubic, A = -0.75, edges clamped, no antialias, as
// torch.nn.functional.interpolate(mode="bicubic", align_corners=False).
#pragma once

#include <span>
#include <vector>

#include "models/models.h"

namespace sightline {

inline constexpr int kTrainedGrid = 37;  // 518 / 14: the grid that DINOv2 was trained on

// table: [1370, width], class row first, then the 37x37 grid. Returns [1025, width] for the 32x32 grid: class row
// unchanged, the rest resampled with the profile's step: 37 / 32.1 upstream
// (dinov2 vision_transformer.py, interpolate_pos_encoding with offset 0.1), 37 / 32 in the port.
std::vector<float> ResamplePositions(std::span<const float> table, int width, Profile profile);

// table: [side, side, width], rows first. Returns [grid.height * grid.width, width] for another grid, row by row
// (MoonViT's Learnable2DInterpPosEmb).
std::vector<float> ResizePositionGrid(std::span<const float> table, int side, int width, PatchGrid grid);

}  // namespace sightline
