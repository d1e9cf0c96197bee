// Prepared weights of LocateAnything.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "models/models.h"
#include "models/weight_plan.h"

namespace sightline {

struct LocateAnything::Weights {
  // MoonViT, width W; projector to the decoder's width H
  struct VisionBlock {
    NormWeights norm0, norm1;
    LinearWeights qkv;  // [3 W, W]
    LinearWeights wo;   // [W, W]
    LinearWeights fc0;  // [intermediate, W]
    LinearWeights fc1;  // [W, intermediate]
  };
  LinearWeights patch;     // [W, 588]
  WeightVector positions;  // [side, side, W]
  std::vector<VisionBlock> blocks;
  NormWeights final_norm;
  NormWeights merged_norm;    // [4 W]: mlp1.0
  LinearWeights projector_1;  // [H, 4 W]: mlp1.1
  LinearWeights projector_3;  // [H, H]: mlp1.3

  // Qwen2 decoder
  struct Layer {
    WeightVector input_norm, post_attention_norm;
    LinearWeights qkv;      // [(heads + 2 kv_heads) head_size, H]: q, k and v below each other
    LinearWeights o;        // [H, H], no bias
    LinearWeights gate_up;  // [2 intermediate, H]: gate above up, no bias
    LinearWeights down;     // [H, intermediate], no bias
  };
  std::vector<Layer> layers;
  WeightVector norm;
  LinearWeights head;  // [vocabulary, H]: the embedding table once more, packed
  // The embedding table as stored; a row is read when its token comes.
  const TensorView* embedding = nullptr;

  CheckpointFolder checkpoint;         // owns `embedding`
  std::shared_ptr<const void> packed;  // keeps the packed file mapped
  size_t packed_bytes = 0;
};

// The release stores the tied head a second time. Reads both tensors, a few megabytes at a time.
bool HeadIsEmbedding(const CheckpointFolder& checkpoint);

// Packs or maps, and binds. The checkpoint has been checked. Pages of the checkpoint are given back while packing.
Result<std::shared_ptr<LocateAnything::Weights>> PrepareLocateWeights(
    const Backend& backend, const CheckpointFolder& checkpoint, const LocateConfig& config, LocatePrecision precision,
    const std::filesystem::path& cache_folder, std::vector<std::string>* warnings, const PackingProgress& packing);

}  // namespace sightline
