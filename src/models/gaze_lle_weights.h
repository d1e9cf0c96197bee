// Prepared weights of Gaze-LLE: what is folded into what before packing.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/models.h"
#include "models/weight_plan.h"

namespace sightline {

inline constexpr int kDecoderWidth = 256;
inline constexpr int kDecoderBlocks = 3;
inline constexpr int kDecoderHeads = 8;
inline constexpr int kInoutHidden = 128;

// A pre-norm transformer block. LayerScale is folded into projection and fc2; QueryScale into the query rows of qkv.
struct BlockWeights {
  NormWeights norm1, norm2;
  LinearWeights qkv;         // [3 * width, width]
  LinearWeights projection;  // [width, width]
  LinearWeights fc1;         // [4 * width, width]
  LinearWeights fc2;         // [width, 4 * width]
};

struct GazeLle::Weights {
  // Backbone, width W
  LinearWeights patch;       // [W, 588]
  WeightVector class_token;  // [W]
  WeightVector tokens[2];    // [1025, W] by Profile: resampled positions, class token added to row 0
  std::vector<BlockWeights> blocks;
  NormWeights norm;

  // Decoder
  LinearWeights scene;           // [256, W]: the 1x1 convolution
  WeightVector scene_positions;  // [1024, 256]
  WeightVector head_token;       // [256]
  WeightVector inout_token;      // [256], empty without in/out head
  BlockWeights decoder[kDecoderBlocks];
  // ConvTranspose2d(256, 256, 2, 2) and Conv2d(256, 1, 1) have nothing between them and are one linear map from a patch
  // to its 2x2 cells: w[2a+b][i] = sum_o c[o] t[i][o][a][b], bias = sum_o c[o] t_bias[o].
  LinearWeights heatmap;       // [4, 256]
  LinearWeights inout_hidden;  // [128, 256]
  LinearWeights inout;         // [1, 128]

  std::shared_ptr<const void> owner;  // keeps the mapping alive
};

// Sizes from the tensors; kCorruptWeights when a tensor that tells a size is missing or odd.
Result<GazeDimensions> ReadGazeDimensions(const GazeLle::Files& files);
// Missing, extra and misshapen tensors of both files.
Status CheckGazeTensors(const GazeLle::Files& files, const GazeDimensions& dimensions);
// Packs or maps, and binds. The files are read only when packing.
Result<std::shared_ptr<GazeLle::Weights>> PrepareGazeWeights(const Backend& backend, const GazeLle::Files& files,
                                                             const GazeDimensions& dimensions, Precision precision,
                                                             const std::filesystem::path& cache_folder,
                                                             const PackingProgress& packing);

}  // namespace sightline
