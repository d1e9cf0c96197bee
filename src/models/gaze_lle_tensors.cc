// Names and shapes of the official state dictionaries: facebookresearch/dinov2 vision_transformer.py (no block chunks)
// and fkryan/gazelle model.py (get_gazelle_state_dict).
#include "models/models.h"

namespace sightline {
namespace {

constexpr int64_t kPositions = 1 + 37 * 37;  // the class token and the 518-pixel training grid
constexpr int64_t kPatch = 14;
constexpr int64_t kDecoderWidth = 256;
constexpr int kDecoderLayers = 3;
constexpr int64_t kInoutHidden = 128;

class SpecList {
 public:
  void Add(std::string name, Shape shape) { specs_.push_back({std::move(name), std::move(shape)}); }
  void AddLayerNorm(const std::string& name, int64_t width) {
    Add(name + ".weight", {width});
    Add(name + ".bias", {width});
  }
  void AddLinear(const std::string& name, int64_t outputs, int64_t inputs) {
    Add(name + ".weight", {outputs, inputs});
    Add(name + ".bias", {outputs});
  }
  std::vector<TensorSpec> Take() { return std::move(specs_); }

 private:
  std::vector<TensorSpec> specs_;
};

void AddBackboneBlock(const std::string& block, int64_t width, SpecList* list) {
  list->AddLayerNorm(block + "norm1", width);
  list->AddLinear(block + "attn.qkv", 3 * width, width);
  list->AddLinear(block + "attn.proj", width, width);
  list->Add(block + "ls1.gamma", {width});
  list->AddLayerNorm(block + "norm2", width);
  list->AddLinear(block + "mlp.fc1", 4 * width, width);
  list->AddLinear(block + "mlp.fc2", width, 4 * width);
  list->Add(block + "ls2.gamma", {width});
}

void AddDecoderLayer(const std::string& layer, SpecList* list) {
  list->AddLayerNorm(layer + "norm1", kDecoderWidth);
  list->Add(layer + "attn.qkv.weight", {3 * kDecoderWidth, kDecoderWidth});  // without bias
  list->AddLinear(layer + "attn.proj", kDecoderWidth, kDecoderWidth);
  list->AddLayerNorm(layer + "norm2", kDecoderWidth);
  list->AddLinear(layer + "mlp.fc1", 4 * kDecoderWidth, kDecoderWidth);
  list->AddLinear(layer + "mlp.fc2", kDecoderWidth, 4 * kDecoderWidth);
}

}  // namespace

std::vector<TensorSpec> GazeBackboneTensors(const GazeDimensions& dimensions) {
  const int64_t width = dimensions.width;
  SpecList list;
  list.Add("cls_token", {1, 1, width});
  list.Add("pos_embed", {1, kPositions, width});
  list.Add("mask_token", {1, width});
  list.Add("patch_embed.proj.weight", {width, 3, kPatch, kPatch});
  list.Add("patch_embed.proj.bias", {width});
  for (int i = 0; i < dimensions.depth; ++i) AddBackboneBlock("blocks." + std::to_string(i) + ".", width, &list);
  list.AddLayerNorm("norm", width);
  return list.Take();
}

std::vector<TensorSpec> GazeDecoderTensors(const GazeDimensions& dimensions) {
  SpecList list;
  list.Add("pos_embed", {kDecoderWidth, kGazeGrid, kGazeGrid});
  list.Add("linear.weight", {kDecoderWidth, dimensions.width, 1, 1});
  list.Add("linear.bias", {kDecoderWidth});
  list.Add("head_token.weight", {1, kDecoderWidth});
  if (dimensions.inout) list.Add("inout_token.weight", {1, kDecoderWidth});
  for (int i = 0; i < kDecoderLayers; ++i) AddDecoderLayer("transformer." + std::to_string(i) + ".", &list);
  list.Add("heatmap_head.0.weight", {kDecoderWidth, kDecoderWidth, 2, 2});
  list.Add("heatmap_head.0.bias", {kDecoderWidth});
  list.Add("heatmap_head.1.weight", {1, kDecoderWidth, 1, 1});
  if (dimensions.inout) {
    list.AddLinear("inout_head.0", kInoutHidden, kDecoderWidth);
    list.AddLinear("inout_head.3", 1, kInoutHidden);
  }
  return list.Take();
}

}  // namespace sightline
