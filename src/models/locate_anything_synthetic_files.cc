// Sizes and the small files of synthetic LocateAnything folders.
#include <fmt/format.h>

#include "models/locate_anything_synthetic.h"

namespace sightline {
namespace {

constexpr int kVocabulary = 152681, kPositionSide = 64, kHeadSize = 128;

// As the official folder has it, but for the sizes and the last line.
constexpr std::string_view kConfig = R"({{
  "_attn_implementation": "magi",
  "architectures": [
    "LocateAnythingForConditionalGeneration"
  ],
  "box_end_token_id": 151669,
  "box_start_token_id": 151668,
  "coord_end_token_id": 152677,
  "coord_start_token_id": 151677,
  "image_token_index": 151665,
  "mlp_checkpoint": false,
  "mlp_connector_layers": 2,
  "model_type": "locateanything",
  "none_token_id": 4064,
  "ref_end_token_id": 151673,
  "ref_start_token_id": 151672,
  "template": null,
  "text_config": {{
    "_name_or_path": "Qwen/Qwen2.5-3B-Instruct",
    "architectures": [
      "Qwen2ForCausalLM"
    ],
    "attention_dropout": 0.0,
    "block_size": 6,
    "bos_token_id": 151643,
    "causal_attn": false,
    "eos_token_id": 151645,
    "hidden_act": "silu",
    "hidden_size": {hidden},
    "initializer_range": 0.02,
    "intermediate_size": {intermediate},
    "max_position_embeddings": 32768,
    "max_window_layers": 70,
    "model_type": "qwen2",
    "null_token_id": 152678,
    "num_attention_heads": {heads},
    "num_hidden_layers": {layers},
    "num_key_value_heads": {kv_heads},
    "rms_norm_eps": 1e-06,
    "rope_scaling": null,
    "rope_theta": 1000000.0,
    "sliding_window": 32768,
    "switch_token_id": 152679,
    "text_mask_token_id": 151676,
    "tie_word_embeddings": true,
    "torch_dtype": "bfloat16",
    "use_cache": false,
    "use_sliding_window": false,
    "vocab_size": {vocabulary}
  }},
  "tie_word_embeddings": true,
  "torch_dtype": "bfloat16",
  "use_backbone_lora": 0,
  "use_llm_lora": 0,
  "vision_config": {{
    "hidden_size": {vision_hidden},
    "init_pos_emb_height": {side},
    "init_pos_emb_width": {side},
    "intermediate_size": {vision_intermediate},
    "merge_kernel_size": [
      2,
      2
    ],
    "model_type": "moonvit",
    "num_attention_heads": {vision_heads},
    "num_hidden_layers": {vision_layers},
    "patch_size": 14,
    "torch_dtype": "bfloat16"
  }},
  "synthetic_size": "{size}"
}}
)";

constexpr std::string_view kPreprocessor = R"({
  "image_processor_type": "LocateAnythingImageProcessor",
  "in_token_limit": 25600,
  "merge_kernel_size": [
    2,
    2
  ]
}
)";

constexpr std::string_view kProcessor = R"({
  "image_end_token": "</img>",
  "image_placeholder": "image",
  "image_start_token": "<img>",
  "image_token": "<IMG_CONTEXT>",
  "merge_kernel_size": [
    2,
    2
  ],
  "patch_size": 14,
  "processor_class": "LocateAnythingProcessor",
  "video_placeholder": "video",
  "video_token": "<IMG_CONTEXT>"
}
)";

constexpr std::string_view kGeneration = R"({
  "_from_model_config": true,
  "bos_token_id": 151643,
  "eos_token_id": 151645
}
)";

LocateConfig Sized(LocateConfig::Language language, LocateConfig::Vision vision) {
  LocateConfig config;
  language.head_size = kHeadSize;
  language.vocabulary = kVocabulary;
  vision.position_side = kPositionSide;
  config.language = language;
  config.vision = vision;
  return config;
}

}  // namespace

Result<LocateConfig> SyntheticLocateSize(std::string_view size) {
  if (size == "full") {
    return Sized({.hidden = 2048, .heads = 16, .kv_heads = 2, .intermediate = 11008, .layers = 36},
                 {.hidden = 1152, .heads = 16, .intermediate = 4304, .layers = 27});
  }
  if (size == "tiny" || size == "puppet") {
    return Sized({.hidden = 256, .heads = 2, .kv_heads = 1, .intermediate = 704, .layers = 3},
                 {.hidden = 144, .heads = 2, .intermediate = 538, .layers = 2});
  }
  return Fail(Code::kInvalidRequest, fmt::format("size '{}' is unknown, expected one of: tiny, full, puppet", size));
}

std::vector<std::pair<std::string, std::string>> SyntheticLocateFiles(std::string_view size,
                                                                      const LocateConfig& config) {
  const auto& [language, vision] = std::tie(config.language, config.vision);
  const std::string text = fmt::format(
      kConfig, fmt::arg("hidden", language.hidden), fmt::arg("intermediate", language.intermediate),
      fmt::arg("heads", language.heads), fmt::arg("layers", language.layers), fmt::arg("kv_heads", language.kv_heads),
      fmt::arg("vocabulary", language.vocabulary), fmt::arg("vision_hidden", vision.hidden),
      fmt::arg("vision_intermediate", vision.intermediate), fmt::arg("vision_heads", vision.heads),
      fmt::arg("vision_layers", vision.layers), fmt::arg("side", vision.position_side), fmt::arg("size", size));
  return {{"config.json", text},
          {"preprocessor_config.json", std::string(kPreprocessor)},
          {"processor_config.json", std::string(kProcessor)},
          {"generation_config.json", std::string(kGeneration)}};
}

}  // namespace sightline
