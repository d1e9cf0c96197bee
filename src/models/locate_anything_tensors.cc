#include <fmt/format.h>

#include "models/models.h"

namespace sightline {
namespace {

void AddWithBias(std::vector<TensorSpec>* specs, const std::string& name, int64_t outputs, int64_t inputs) {
  specs->push_back({name + ".weight", {outputs, inputs}});
  specs->push_back({name + ".bias", {outputs}});
}

void AddNorm(std::vector<TensorSpec>* specs, const std::string& name, int64_t size) {
  specs->push_back({name + ".weight", {size}});
  specs->push_back({name + ".bias", {size}});
}

void AddVision(std::vector<TensorSpec>* specs, const LocateConfig::Vision& vision) {
  const int64_t width = vision.hidden;
  specs->push_back({"vision_model.patch_embed.proj.weight", {width, 3, kPatchSize, kPatchSize}});
  specs->push_back({"vision_model.patch_embed.proj.bias", {width}});
  specs->push_back({"vision_model.patch_embed.pos_emb.weight", {vision.position_side, vision.position_side, width}});
  for (int i = 0; i < vision.layers; ++i) {
    const std::string block = fmt::format("vision_model.encoder.blocks.{}.", i);
    AddNorm(specs, block + "norm0", width);
    AddNorm(specs, block + "norm1", width);
    AddWithBias(specs, block + "mlp.fc0", vision.intermediate, width);
    AddWithBias(specs, block + "mlp.fc1", width, vision.intermediate);
    AddWithBias(specs, block + "wqkv", 3 * width, width);
    AddWithBias(specs, block + "wo", width, width);
  }
  AddNorm(specs, "vision_model.encoder.final_layernorm", width);
}

void AddLanguage(std::vector<TensorSpec>* specs, const LocateConfig::Language& language) {
  const int64_t hidden = language.hidden;
  const int64_t kv = int64_t{language.kv_heads} * language.head_size;
  specs->push_back({"language_model.model.embed_tokens.weight", {language.vocabulary, hidden}});
  for (int i = 0; i < language.layers; ++i) {
    const std::string layer = fmt::format("language_model.model.layers.{}.", i);
    AddWithBias(specs, layer + "self_attn.q_proj", hidden, hidden);
    AddWithBias(specs, layer + "self_attn.k_proj", kv, hidden);
    AddWithBias(specs, layer + "self_attn.v_proj", kv, hidden);
    specs->push_back({layer + "self_attn.o_proj.weight", {hidden, hidden}});
    specs->push_back({layer + "mlp.gate_proj.weight", {language.intermediate, hidden}});
    specs->push_back({layer + "mlp.up_proj.weight", {language.intermediate, hidden}});
    specs->push_back({layer + "mlp.down_proj.weight", {hidden, language.intermediate}});
    specs->push_back({layer + "input_layernorm.weight", {hidden}});
    specs->push_back({layer + "post_attention_layernorm.weight", {hidden}});
  }
  specs->push_back({"language_model.model.norm.weight", {hidden}});
  specs->push_back({"language_model.lm_head.weight", {language.vocabulary, hidden}});
}

}  // namespace

std::vector<TensorSpec> LocateTensors(const LocateConfig& config) {
  std::vector<TensorSpec> specs;
  AddVision(&specs, config.vision);
  AddLanguage(&specs, config.language);
  const int64_t merged = int64_t{4} * config.vision.hidden, hidden = config.language.hidden;
  AddNorm(&specs, "mlp1.0", merged);
  AddWithBias(&specs, "mlp1.1", hidden, merged);
  AddWithBias(&specs, "mlp1.3", hidden, hidden);
  return specs;
}

}  // namespace sightline
