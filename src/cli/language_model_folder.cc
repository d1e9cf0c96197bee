#include "cli/language_model_folder.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/tokenizer_files.h"
#include "models/models.h"
#include "weights/weights.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::string_view kModelFile = "model.safetensors";
constexpr size_t kMaxJson = 16 << 20;

Result<ordered_json> ReadJson(const fs::path& path) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadFile(path, kMaxJson));
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  ordered_json document = ordered_json::parse(text, text + bytes.size(), nullptr, false);
  if (document.is_object()) return document;
  return Fail(Code::kCorruptWeights, fmt::format("{}: not a JSON object", path.string()));
}

Status WriteText(const fs::path& path, const std::string& text) { return WriteFileAtomically(path, AsBytes(text)); }

// config.json of Qwen2ForCausalLM: the text part of the model's own, less what Qwen2 does not know.
Result<ordered_json> LanguageConfig(const fs::path& folder) {
  SIGHTLINE_ASSIGN_OR_RETURN(const ordered_json whole, ReadJson(folder / "config.json"));
  if (!whole.contains("text_config") || !whole["text_config"].is_object()) {
    return Fail(Code::kCorruptWeights,
                fmt::format("{}: text_config is missing or no object", (folder / "config.json").string()));
  }
  ordered_json config = whole["text_config"];
  for (const char* key : {"_name_or_path", "_attn_implementation", "auto_map", "block_size", "causal_attn",
                          "null_token_id", "switch_token_id", "text_mask_token_id"}) {
    config.erase(key);
  }
  config["architectures"] = {"Qwen2ForCausalLM"};
  config["model_type"] = "qwen2";
  config["tie_word_embeddings"] = true;
  config["torch_dtype"] = "bfloat16";
  config["use_cache"] = true;
  return config;
}

// tokenizer_config.json without code of the model's repository.
std::string PlainTokenizerConfig(const std::string& text) {
  ordered_json config = ordered_json::parse(text, nullptr, false);
  if (!config.is_object()) return text;
  config.erase("auto_map");
  config.erase("processor_class");
  return config.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

// Whether the folder holds this model wholly; an error where it holds another one.
Result<bool> IsComplete(const fs::path& folder, const LocateConfig& config) {
  std::error_code ignored;
  if (!fs::exists(folder / kModelFile, ignored)) return false;
  const Result<CheckpointFolder> there = CheckpointFolder::Open(folder);
  if (there && CheckTensors(*there, LanguageModelTensors(config))) return true;
  return Fail(Code::kInvalidRequest,
              fmt::format("{} holds other or damaged weights; --force replaces them", folder.string()));
}

Status WriteSmallFiles(const fs::path& from, const fs::path& folder) {
  SIGHTLINE_ASSIGN_OR_RETURN(const ordered_json config, LanguageConfig(from));
  SIGHTLINE_ASSIGN_OR_RETURN(const TokenizerFiles tokenizer, ReadTokenizerFiles(from));
  Result<ordered_json> generation = ReadJson(from / "generation_config.json");
  if (!generation && generation.error().code != Code::kNotFound) return tl::make_unexpected(generation.error());
  if (!generation) {
    generation = ordered_json{{"_from_model_config", true}};
    for (const char* key : {"bos_token_id", "eos_token_id"}) {
      if (config.contains(key)) (*generation)[key] = config[key];
    }
  }
  const auto dump = [](const ordered_json& document) {
    return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  };
  SIGHTLINE_RETURN_IF_ERROR(WriteText(folder / "config.json", dump(config)));
  SIGHTLINE_RETURN_IF_ERROR(WriteText(folder / "generation_config.json", dump(*generation)));
  for (const auto& [name, contents] : tokenizer) {
    SIGHTLINE_RETURN_IF_ERROR(
        WriteText(folder / name, name == "tokenizer_config.json" ? PlainTokenizerConfig(contents) : contents));
  }
  return {};
}

}  // namespace

Result<LanguageModelFolder> WriteLanguageModelFolder(const fs::path& from, const fs::path& folder, bool again,
                                                     const std::function<void(int done, int total)>& progress) {
  std::error_code error;
  if (fs::equivalent(from, folder, error)) {
    return Fail(Code::kInvalidRequest,
                fmt::format("{} is the model's own folder, expected another one", folder.string()));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const LocateConfig config, ReadLocateConfig(from));
  LanguageModelFolder result;
  if (!again) {
    SIGHTLINE_ASSIGN_OR_RETURN(result.kept, IsComplete(folder, config));
  }
  if (result.kept) return result;
  fs::create_directories(folder, error);
  if (error) return tl::make_unexpected(ErrnoError("make folder", folder, error.value()));
  // What is without weights looks like no model, so these go first and come last.
  fs::remove(folder / kModelFile, error);
  if (error) return tl::make_unexpected(ErrnoError("replace", folder / kModelFile, error.value()));
  SIGHTLINE_RETURN_IF_ERROR(WriteSmallFiles(from, folder));
  SIGHTLINE_RETURN_IF_ERROR(ExtractLanguageModel(from, folder, &result.warnings, progress));
  return result;
}

}  // namespace sightline
