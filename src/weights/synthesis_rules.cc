#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "weights/checkpoint_formats.h"
#include "weights/weights.h"

extern "C" {
extern const std::byte sightline_gaze_lle_rules[], sightline_gaze_lle_rules_end[];
extern const std::byte sightline_pos_embed_axis[], sightline_pos_embed_axis_end[];
}

namespace sightline {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kMaxFile = 1 << 20;
constexpr int kMaxJsonDepth = 16;
constexpr int64_t kMaxEmbedDim = 8192, kMaxDepth = 128;
constexpr double kMaxValue = 1e30;                        // far inside float32, whatever the gain
constexpr int64_t kTableChannels = 128, kTableSide = 32;  // of the position table's axis

enum class Spread : uint8_t {
  kLiteral,   // the amplitude itself
  kFanFirst,  // a gain over the first dimension
  kFanRest,   // a gain over the product of the others
  kSinusoid,  // no random numbers: the decoder's position table
};

using Size = SynthesisRules::Size;

struct Rule {
  std::string pattern;
  Spread spread = Spread::kLiteral;
  double centre = 0, amount = 0;
};

// '*' stands for any run of characters, also an empty one.
bool Matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  name.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  while (true) {
    // The piece up to the next star may as well sit at its first place; the last piece sits at the end.
    const size_t next = pattern.find('*');
    if (next == pattern.npos) return name.ends_with(pattern);
    const size_t at = name.find(pattern.substr(0, next));
    if (at == name.npos) return false;
    name.remove_prefix(at + next);
    pattern.remove_prefix(next + 1);
  }
}

const Rule* FindRule(std::span<const Rule> rules, std::string_view name) {
  for (const Rule& rule : rules) {
    if (Matches(rule.pattern, name)) return &rule;
  }
  return nullptr;
}

// The official sinusoid [256, 32, 32] from its axis [128, 32]: channels 0 to 127 vary along x, the others along y.
Status FillPositionTable(const TensorSpec& tensor, std::span<float> values) {
  if (tensor.shape != Shape{2 * kTableChannels, kTableSide, kTableSide}) {
    return Fail(Code::kInvalidRequest,
                fmt::format("synthesis rules: {} has shape {}, expected [256, 32, 32] for the position "
                            "table",
                            Printable(tensor.name), ToString(tensor.shape)));
  }
  float axis[kTableChannels * kTableSide];
  // The last bytes of the .npy file are the elements, float32, row-major.
  const std::span<const std::byte> file(sightline_pos_embed_axis, sightline_pos_embed_axis_end);
  std::memcpy(axis, file.last(sizeof(axis)).data(), sizeof(axis));
  size_t at = 0;
  for (int64_t channel = 0; channel < 2 * kTableChannels; ++channel) {
    const float* row = axis + channel % kTableChannels * kTableSide;
    for (int64_t y = 0; y < kTableSide; ++y) {
      for (int64_t x = 0; x < kTableSide; ++x) values[at++] = row[channel < kTableChannels ? x : y];
    }
  }
  return {};
}

struct RuleSet {
  std::map<std::string, Size, std::less<>> sizes;
  std::map<std::string, std::vector<Rule>, std::less<>> parts;         // "backbone", "decoder"
  std::map<std::string, std::vector<Rule>, std::less<>> calibrations;  // "tiny/1"
};

tl::unexpected<Error> BadRules(std::string_view source, std::string_view what) {
  return Fail(Code::kInvalidRequest, fmt::format("synthesis rules {}: {}", source, what));
}

class RulesReader {
 public:
  explicit RulesReader(std::string_view source) : source_(source) {}

  Result<RuleSet> Read(std::string_view json) const {
    dom::parser parser(kMaxFile);
    dom::object file, sizes, calibrations;
    auto error = parser.allocate(std::min(json.size(), kMaxFile), kMaxJsonDepth);
    if (!error) error = parser.parse(json.data(), json.size()).get(file);
    if (error) return BadRules(source_, fmt::format("not a JSON object: {}", simdjson::error_message(error)));
    RuleSet rules;
    if (file["sizes"].get(sizes)) return BadRules(source_, "sizes is missing or no object");
    for (const auto& [name, value] : sizes) {
      SIGHTLINE_ASSIGN_OR_RETURN(rules.sizes[std::string(name)], ReadSize(name, value));
    }
    for (const std::string part : {"backbone", "decoder"}) {
      SIGHTLINE_ASSIGN_OR_RETURN(rules.parts[part], ReadPart(part, file[part]));
    }
    if (file["calibration"].error()) return rules;
    if (file["calibration"].get(calibrations)) return BadRules(source_, "calibration is no object");
    for (const auto& [name, value] : calibrations) {
      SIGHTLINE_ASSIGN_OR_RETURN(rules.calibrations[std::string(name)], ReadCalibration(name, value));
    }
    return rules;
  }

 private:
  // A size's name becomes part of file names.
  Result<Size> ReadSize(std::string_view name, dom::element value) const {
    constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789_-";
    int64_t embed_dim = 0, depth = 0, heads = 0;
    if (name.empty() || name.size() > 32 || name.find_first_not_of(kAllowed) != name.npos) {
      return BadRules(source_, fmt::format("the size name {} is not of the form [a-z0-9_-]+", Printable(name)));
    }
    if (value["embed_dim"].get(embed_dim) || value["depth"].get(depth) || value["heads"].get(heads)) {
      return BadRules(source_, fmt::format("size {} has no embed_dim, depth or heads", name));
    }
    if (embed_dim < 1 || embed_dim > kMaxEmbedDim || depth < 1 || depth > kMaxDepth || heads < 1 ||
        embed_dim % heads != 0) {
      return BadRules(source_,
                      fmt::format("size {} has embed_dim {}, depth {}, heads {}; expected at most {}, at most {} "
                                  "and a divisor of embed_dim",
                                  name, embed_dim, depth, heads, kMaxEmbedDim, kMaxDepth));
    }
    return Size{static_cast<int>(embed_dim), static_cast<int>(depth), static_cast<int>(heads)};
  }

  Result<std::vector<Rule>> ReadPart(std::string_view part, simdjson::simdjson_result<dom::element> value) const {
    dom::array rows;
    if (value.get(rows)) return BadRules(source_, fmt::format("{} is missing or no list", part));
    std::vector<Rule> rules;
    for (const auto& row : rows) {
      std::string_view pattern;
      if (row["name"].get(pattern)) return BadRules(source_, fmt::format("a row of {} has no name", part));
      SIGHTLINE_ASSIGN_OR_RETURN(Rule rule, ReadRule(part, pattern, row));
      rules.push_back(std::move(rule));
    }
    return rules;
  }

  Result<std::vector<Rule>> ReadCalibration(std::string_view name, dom::element value) const {
    dom::object rows;
    if (value.get(rows)) return BadRules(source_, fmt::format("calibration {} is no object", Printable(name)));
    std::vector<Rule> rules;
    for (const auto& [tensor, row] : rows) {
      SIGHTLINE_ASSIGN_OR_RETURN(Rule rule, ReadRule(name, tensor, row));
      rules.push_back(std::move(rule));
    }
    return rules;
  }

  Result<Rule> ReadRule(std::string_view part, std::string_view pattern, dom::element row) const {
    const auto bad = [&](std::string_view what) {
      return BadRules(source_, fmt::format("row {} of {} {}", Printable(pattern), Printable(part), what));
    };
    Rule rule{std::string(pattern)};
    std::string_view special, fan;
    if (!row["special"].get(special)) {
      if (!special.starts_with("sinusoid")) return bad("has an unknown special");
      rule.spread = Spread::kSinusoid;
      return rule;
    }
    const auto amplitude = row["amplitude"];
    if (row["centre"].get(rule.centre)) return bad("has no centre");
    if (amplitude.get(rule.amount)) {
      if (amplitude["gain"].get(rule.amount) || amplitude["fan"].get(fan) || (fan != "first" && fan != "rest")) {
        return bad("has no amplitude, which is a number or a gain with fan first or rest");
      }
      rule.spread = fan == "first" ? Spread::kFanFirst : Spread::kFanRest;
    }
    if (std::abs(rule.centre) > kMaxValue || std::abs(rule.amount) > kMaxValue) return bad("has a value beyond 1e30");
    return rule;
  }

  std::string_view source_;
};

float AmplitudeOf(const Rule& rule, const Shape& shape) {
  if (rule.spread == Spread::kLiteral) return static_cast<float>(rule.amount);
  double fan_in = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if ((i == 0) == (rule.spread == Spread::kFanFirst)) fan_in *= static_cast<double>(shape[i]);
  }
  return SyntheticAmplitude(rule.amount, fan_in);
}

}  // namespace

struct SynthesisRules::State {
  std::string source;
  RuleSet rules;
};

Result<SynthesisRules> SynthesisRules::Default() {
  const auto* begin = reinterpret_cast<const char*>(sightline_gaze_lle_rules);
  const auto* end = reinterpret_cast<const char*>(sightline_gaze_lle_rules_end);
  return Parse({begin, end}, "built in");
}

Result<SynthesisRules> SynthesisRules::Open(const std::filesystem::path& path) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadFile(path, kMaxFile));
  return Parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

Result<SynthesisRules> SynthesisRules::Parse(std::string_view json, std::string source) {
  auto state = std::make_shared<State>();
  SIGHTLINE_ASSIGN_OR_RETURN(state->rules, RulesReader(source).Read(json));
  state->source = std::move(source);
  SynthesisRules rules;
  rules.state_ = std::move(state);
  return rules;
}

Result<SynthesisRules::Size> SynthesisRules::FindSize(std::string_view size) const {
  const auto& sizes = state_->rules.sizes;
  if (const auto found = sizes.find(size); found != sizes.end()) return found->second;
  std::vector<std::string_view> known;
  for (const auto& [name, value] : sizes) known.push_back(name);
  return Fail(Code::kInvalidRequest,
              fmt::format("size {} is unknown, expected one of: {}", Printable(size), fmt::join(known, ", ")));
}

Status SynthesisRules::Fill(std::string_view part, const TensorSpec& tensor, std::string_view size, uint64_t seed,
                            std::span<float> values) const {
  SIGHTLINE_CHECK(values.size() == static_cast<size_t>(ElementCount(tensor.shape)));
  const RuleSet& rules = state_->rules;
  const auto rows = rules.parts.find(part);
  const Rule* rule = rows == rules.parts.end() ? nullptr : FindRule(rows->second, tensor.name);
  if (part == "decoder") {
    const auto calibration = rules.calibrations.find(fmt::format("{}/{}", size, seed));
    if (calibration != rules.calibrations.end()) {
      const auto own = std::ranges::find(calibration->second, tensor.name, &Rule::pattern);
      if (own != calibration->second.end()) rule = &*own;
    }
  }
  if (rule == nullptr) {
    return BadRules(state_->source, fmt::format("no row of {} matches {}", part, Printable(tensor.name)));
  }
  if (rule->spread == Spread::kSinusoid) return FillPositionTable(tensor, values);
  SyntheticTensor(tensor.name, seed, static_cast<float>(rule->centre), AmplitudeOf(*rule, tensor.shape), values);
  return {};
}

}  // namespace sightline
