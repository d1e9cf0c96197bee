#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/terminal.h"
#include "cli/tokenizer_files.h"
#include "cli/verb.h"
#include "models/models.h"
#include "weights/weights.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::string_view kModelFile = "model.safetensors";
constexpr size_t kMaxJson = 16 << 20;

class ExtractLlmVerb : public Verb {
 public:
  VerbText text() const override {
    return {"extract-llm", "Write the language model of LocateAnything as a plain Qwen2 folder",
            "sightline extract-llm --weights LocateAnything-3B --out language-model",
            "The folder loads with transformers. A complete one is kept; its weights are written last."};
  }
  void Declare(OptionSet& options) override {
    options.Folder("--weights", from_, "the official model folder");
    options.Folder("--out", folder_, "folder to write; made where it is missing");
    options.Flag("--force", force_, "write it again where it is complete already");
    options.Flag("--json", json_, "print the result as JSON");
  }
  Status Check() override;
  Result<int> Run() override;

 private:
  // Whether the folder holds this model wholly; an error where it holds another one.
  Result<bool> IsComplete(const LocateConfig& config) const;
  Status WriteSmallFiles() const;
  Status WriteWeights() const;

  fs::path from_, folder_;
  bool force_ = false;
  bool json_ = false;
};

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

Status ExtractLlmVerb::Check() {
  if (from_.empty()) return Fail(Code::kUsage, "--weights is missing, expected the official model folder");
  if (folder_.empty()) return Fail(Code::kUsage, "--out is missing, expected a folder for the files");
  return {};
}

Result<bool> ExtractLlmVerb::IsComplete(const LocateConfig& config) const {
  std::error_code ignored;
  if (!fs::exists(folder_ / kModelFile, ignored)) return false;
  const Result<CheckpointFolder> there = CheckpointFolder::Open(folder_);
  if (there && CheckTensors(*there, LanguageModelTensors(config))) return true;
  return Fail(Code::kInvalidRequest,
              fmt::format("{} holds other or damaged weights; --force replaces them", folder_.string()));
}

Status ExtractLlmVerb::WriteSmallFiles() const {
  SIGHTLINE_ASSIGN_OR_RETURN(const ordered_json config, LanguageConfig(from_));
  SIGHTLINE_ASSIGN_OR_RETURN(const TokenizerFiles tokenizer, ReadTokenizerFiles(from_));
  Result<ordered_json> generation = ReadJson(from_ / "generation_config.json");
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
  SIGHTLINE_RETURN_IF_ERROR(WriteText(folder_ / "config.json", dump(config)));
  SIGHTLINE_RETURN_IF_ERROR(WriteText(folder_ / "generation_config.json", dump(*generation)));
  for (const auto& [name, contents] : tokenizer) {
    SIGHTLINE_RETURN_IF_ERROR(
        WriteText(folder_ / name, name == "tokenizer_config.json" ? PlainTokenizerConfig(contents) : contents));
  }
  return {};
}

Status ExtractLlmVerb::WriteWeights() const {
  std::vector<std::string> warnings;
  Progress progress("writing the language model: tensor");
  SIGHTLINE_RETURN_IF_ERROR(ExtractLanguageModel(from_, folder_, &warnings,
                                                 [&progress](int done, int total) { progress.Show(done, total); }));
  progress.Clear();
  for (const std::string& warning : warnings) PrintWarning(warning);
  return {};
}

Result<int> ExtractLlmVerb::Run() {
  std::error_code error;
  if (fs::equivalent(from_, folder_, error)) {
    return Fail(Code::kInvalidRequest, "--out is the folder of --weights, expected another one");
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const LocateConfig config, ReadLocateConfig(from_));
  bool kept = false;
  if (!force_) {
    SIGHTLINE_ASSIGN_OR_RETURN(kept, IsComplete(config));
  }
  if (!kept) {
    fs::create_directories(folder_, error);
    if (error) return tl::make_unexpected(ErrnoError("make folder", folder_, error.value()));
    // What is without weights looks like no model, so these go first and come last.
    fs::remove(folder_ / kModelFile, error);
    if (error) return tl::make_unexpected(ErrnoError("replace", folder_ / kModelFile, error.value()));
    SIGHTLINE_RETURN_IF_ERROR(WriteSmallFiles());
    SIGHTLINE_RETURN_IF_ERROR(WriteWeights());
  }
  if (json_) {
    const ordered_json document = {{"folder", folder_.string()}, {"kept", kept}};
    Print(document.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
    return 0;
  }
  Print(folder_.string() + "\n");
  if (kept) PrintNote("the folder is complete already; --force writes it again");
  return 0;
}

}  // namespace

std::unique_ptr<Verb> MakeExtractLlmVerb() { return std::make_unique<ExtractLlmVerb>(); }

}  // namespace sightline
