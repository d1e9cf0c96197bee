#include <fmt/format.h>
#include <simdjson.h>

#include "models/models.h"

namespace sightline {
namespace {

constexpr size_t kMaxConfigBytes = 1 << 20;
constexpr int64_t kDefaultTokenLimit = 25600;  // preprocessor_config.json of the release

// One JSON object of a file. The first thing that is missing or out of range is kept as the error.
class Fields {
 public:
  Fields(simdjson::dom::object object, std::string where) : object_(object), where_(std::move(where)) {}

  int Integer(const char* name, int64_t least, int64_t most) {
    int64_t value = 0;
    const auto error = object_[name].get_int64().get(value);
    if (error != simdjson::SUCCESS) {
      Blame(fmt::format("{} is missing or no whole number", name));
    } else if (value < least || value > most) {
      Blame(least == most ? fmt::format("{} is {}, expected {}", name, value, least)
                          : fmt::format("{} is {}, expected {} to {}", name, value, least, most));
    } else {
      return static_cast<int>(value);
    }
    return static_cast<int>(least);
  }

  double Number(const char* name) {
    double value = 0;
    if (object_[name].get_double().get(value) != simdjson::SUCCESS || !(value > 0)) {
      Blame(fmt::format("{} is missing or no positive number", name));
      return 1;
    }
    return value;
  }

  // Something that this program can do in one way only: `expected` as JSON without spaces. May be missing.
  void Expect(const char* name, std::string_view expected) {
    simdjson::dom::element value;
    if (object_[name].get(value) != simdjson::SUCCESS) return;
    const std::string found = simdjson::minify(value);
    if (found != expected) Blame(fmt::format("{} is {:.64}, expected {}", name, found, expected));
  }

  bool Has(const char* name) const { return object_[name].error() == simdjson::SUCCESS; }

  Fields Object(const char* name) {
    simdjson::dom::object inner;
    if (object_[name].get_object().get(inner) != simdjson::SUCCESS) {
      Blame(fmt::format("{} is missing or no object", name));
    }
    return {inner, where_ + ": " + name};
  }

  void Blame(const std::string& sentence) {
    if (fault_.empty()) fault_ = where_ + ": " + sentence;
  }
  const std::string& fault() const { return fault_; }

 private:
  simdjson::dom::object object_;
  std::string where_;
  std::string fault_;
};

Result<simdjson::dom::object> ParseObject(simdjson::dom::parser* parser, const std::filesystem::path& path,
                                          std::span<const std::byte> bytes) {
  simdjson::dom::object object;
  const auto error = parser->parse(reinterpret_cast<const char*>(bytes.data()), bytes.size()).get_object().get(object);
  if (error != simdjson::SUCCESS) {
    return Fail(Code::kCorruptWeights,
                fmt::format("{}: no JSON object: {}", path.string(), simdjson::error_message(error)));
  }
  return object;
}

LocateConfig::Language ReadLanguage(Fields* text) {
  LocateConfig::Language language;
  language.hidden = text->Integer("hidden_size", 8, 1 << 16);
  language.heads = text->Integer("num_attention_heads", 1, 1024);
  language.kv_heads = text->Integer("num_key_value_heads", 1, 1024);
  language.intermediate = text->Integer("intermediate_size", 8, 1 << 20);
  language.layers = text->Integer("num_hidden_layers", 1, 1024);
  language.vocabulary = text->Integer("vocab_size", 8, 1 << 24);
  language.context = text->Integer("max_position_embeddings", 8, 1 << 24);
  language.rope_theta = text->Number("rope_theta");
  language.norm_epsilon = text->Number("rms_norm_eps");
  text->Integer("block_size", kWindow, kWindow);
  text->Expect("hidden_act", "\"silu\"");
  text->Expect("rope_scaling", "null");
  text->Expect("tie_word_embeddings", "true");
  text->Expect("use_sliding_window", "false");
  if (language.hidden % language.heads != 0 || language.heads % language.kv_heads != 0 ||
      language.hidden / language.heads % 8 != 0) {
    text->Blame(
        fmt::format("{} channels, {} heads and {} key heads do not divide into heads of a multiple of 8 "
                    "channels",
                    language.hidden, language.heads, language.kv_heads));
  }
  language.head_size = language.hidden / language.heads;
  return language;
}

LocateConfig::Vision ReadVision(Fields* fields) {
  LocateConfig::Vision vision;
  vision.hidden = fields->Integer("hidden_size", 8, 1 << 16);
  vision.heads = fields->Integer("num_attention_heads", 1, 1024);
  vision.intermediate = fields->Integer("intermediate_size", 2, 1 << 20);
  vision.layers = fields->Integer("num_hidden_layers", 1, 1024);
  vision.position_side = fields->Integer("init_pos_emb_height", 1, 512);
  fields->Integer("init_pos_emb_width", vision.position_side, vision.position_side);
  fields->Integer("patch_size", kPatchSize, kPatchSize);
  fields->Expect("merge_kernel_size", "[2,2]");
  if (vision.hidden % vision.heads != 0 || vision.hidden / vision.heads % 8 != 0) {
    fields->Blame(fmt::format("{} channels do not divide into {} heads of a multiple of 8 channels", vision.hidden,
                              vision.heads));
  }
  return vision;
}

LocateTokens ReadTokens(Fields* top, Fields* text, int vocabulary) {
  LocateTokens tokens;
  const auto id = [&](Fields* from, const char* name) { return from->Integer(name, 0, vocabulary - 1); };
  tokens.image = id(top, "image_token_index");
  tokens.box_start = id(top, "box_start_token_id");
  tokens.box_end = id(top, "box_end_token_id");
  tokens.ref_start = id(top, "ref_start_token_id");
  tokens.ref_end = id(top, "ref_end_token_id");
  tokens.first_coordinate = id(top, "coord_start_token_id");
  tokens.last_coordinate = id(top, "coord_end_token_id");
  tokens.none = id(top, "none_token_id");
  tokens.mask = id(text, "text_mask_token_id");
  tokens.null = id(text, "null_token_id");
  tokens.message_end = id(text, "eos_token_id");
  if (tokens.last_coordinate - tokens.first_coordinate != 1000) {
    top->Blame(fmt::format("coordinate tokens are {} to {}, expected 1001 of them", tokens.first_coordinate,
                           tokens.last_coordinate));
  }
  return tokens;
}

Result<int64_t> ReadTokenLimit(const std::filesystem::path& folder) {
  const auto path = folder / "preprocessor_config.json";
  if (!std::filesystem::exists(path)) return kDefaultTokenLimit;
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadFile(path, kMaxConfigBytes));
  simdjson::dom::parser parser;
  SIGHTLINE_ASSIGN_OR_RETURN(const simdjson::dom::object object, ParseObject(&parser, path, bytes));
  Fields fields(object, path.string());
  if (!fields.Has("in_token_limit")) return kDefaultTokenLimit;
  const int64_t limit = fields.Integer("in_token_limit", 4, 1 << 18);
  if (!fields.fault().empty()) return Fail(Code::kCorruptWeights, fields.fault());
  return limit;
}

}  // namespace

std::string LocateConfig::variant() const {
  if (language.hidden == 2048 && language.layers == 36 && vision.hidden == 1152 && vision.layers == 27) return "3b";
  return fmt::format("hidden {}, layers {}", language.hidden, language.layers);
}

Result<LocateConfig> ReadLocateConfig(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadFile(path, kMaxConfigBytes));
  simdjson::dom::parser parser;
  SIGHTLINE_ASSIGN_OR_RETURN(const simdjson::dom::object object, ParseObject(&parser, path, bytes));
  std::string_view type;
  if (object["model_type"].get_string().get(type) != simdjson::SUCCESS || type != "locateanything") {
    return Fail(Code::kUnsupported, fmt::format("{}: model_type is {}, expected locateanything", path.string(),
                                                type.empty() ? "missing" : type));
  }
  Fields top(object, path.string());
  Fields text = top.Object("text_config");
  Fields vision = top.Object("vision_config");
  if (!top.fault().empty()) return Fail(Code::kCorruptWeights, top.fault());
  LocateConfig config;
  config.language = ReadLanguage(&text);
  config.vision = ReadVision(&vision);
  config.tokens = ReadTokens(&top, &text, config.language.vocabulary);
  config.synthetic = top.Has("synthetic_size");
  for (const Fields* fields : {&text, &vision, &top}) {
    if (!fields->fault().empty()) return Fail(Code::kCorruptWeights, fields->fault());
  }
  SIGHTLINE_ASSIGN_OR_RETURN(config.token_limit, ReadTokenLimit(folder));
  return config;
}

}  // namespace sightline
