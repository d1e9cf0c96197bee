// The puppet. Columns of the residual stream:
//
//     0       constant 8                       1        on mask tokens
//     2       on category words                3..10    script of a category word
//    16..55   code of the token                56..95   code of the nearest token that is no mask
//    96..103  the token before, box ends only  104..111 the same of the nearest token that is no mask
//   112..119  script of the question           120      attention that went to masks
//   121..125  row 1 to 5 of the window, or one behind  128.. noise
//
// Layer 0: head 0 looks one token back, head 1 at category words. Layer 1: head 0 looks at the nearest token that is no
// mask, head 1 spreads over the window, and the MLP turns how much of it fell on masks into the row. Layer 2: the MLP
// has one unit for each script, token, token before and row, which writes the next token of the script.
#include <algorithm>
#include <cmath>

#include "models/locate_anything_synthetic.h"

namespace sightline {
namespace {

constexpr int kConstant = 0, kIsMask = 1, kIsCategory = 2, kCategory = 3, kCode = 16, kNear = 56, kPrevious = 96,
              kNearPrevious = 104, kScript = 112, kMaskMass = 120, kRow = 121, kNoise = 128;
constexpr int kCodes = 40, kScripts = 8, kHeadSize = 128;
constexpr TokenId kNewline = 198;  // ends the prompt
constexpr LocateTokens kTokens;
constexpr TokenId kCoordinate = kTokens.first_coordinate;

struct Script {
  std::vector<TokenId> words;  // ids of the category in a question, with and without a space
  std::vector<TokenId> answer;
  int ambiguous_row = -1;  // of the window behind </ref>: a second coordinate is nearly as probable there
  TokenId ambiguous = 0;
};

// The first one that a question names wins; the last is for all others.
std::vector<Script> MakeScripts() {
  constexpr TokenId kRef = kTokens.ref_start, kRefEnd = kTokens.ref_end, kBox = kTokens.box_start,
                    kBoxEnd = kTokens.box_end, kEnd = kTokens.message_end, kNone = kTokens.none, kC = kCoordinate;
  const auto with_box = [&](TokenId word, std::vector<TokenId> inside) {
    std::vector<TokenId> answer = {kRef, word, kRefEnd, kBox};
    answer.insert(answer.end(), inside.begin(), inside.end());
    answer.insert(answer.end(), {kBoxEnd, kEnd});
    return answer;
  };
  return {
      {{1803, 6918}, with_box(6918, {kC + 282, kC + 414, kC + 607, kC + 797})},  // car
      {{1697, 8987},
       with_box(8987, {kC + 100, kC + 200, kC + 300, kC + 400, kBoxEnd, kBox, kC + 500, kC + 150, kC + 700,
                       kC + 450})},                                                          // person
      {{5562, 18457}, with_box(18457, {kC + 512, kC + 256})},                                // dog
      {{8251, 4616}, with_box(4616, {kNone})},                                               // cat
      {{5828, 10338}, with_box(10338, {kC + 10, kC + 20, kC + 30, kC + 40}), 3, kC + 930},   // bus
      {{11958, 22592}, with_box(22592, {kC + 50, kC + 60, kC + 70, kC + 80}), 1, kC + 951},  // bird
      {{}, {kBox, kNone, kBoxEnd, kEnd}},
  };
}

bool IsStructure(TokenId id) {
  return id == kTokens.ref_start || id == kTokens.ref_end || id == kTokens.box_start || id == kTokens.box_end ||
         id == kTokens.message_end || id == kTokens.none;
}

using Codes = std::map<TokenId, int>;

Codes Numbered(const std::vector<TokenId>& ids) {
  Codes codes;
  for (const TokenId id : ids) codes.emplace(id, static_cast<int>(codes.size()));
  return codes;
}

// Every token that stands in an answer.
Codes TokenCodes(const std::vector<Script>& scripts) {
  std::vector<TokenId> others;
  for (const Script& script : scripts) {
    std::ranges::remove_copy_if(script.answer, std::back_inserter(others), IsStructure);
    if (script.ambiguous_row >= 0) others.push_back(script.ambiguous);
  }
  std::ranges::sort(others);
  std::vector<TokenId> ids = {kNewline,        kTokens.ref_start,   kTokens.ref_end, kTokens.box_start,
                              kTokens.box_end, kTokens.message_end, kTokens.null,    kTokens.none};
  ids.insert(ids.end(), others.begin(), others.end());
  return Numbered(ids);
}

// Every token that stands before a </box>, and </box> itself: what tells one state of a script from another.
Codes EndCodes(const std::vector<Script>& scripts) {
  std::vector<TokenId> ids = {kTokens.box_end};
  for (const auto& [words, answer, row, second] : scripts) {
    for (size_t i = 1; i < answer.size(); ++i) {
      if (answer[i] == kTokens.box_end) ids.push_back(answer[i - 1]);
    }
  }
  std::ranges::sort(ids);
  return Numbered(ids);
}

// A point of a script: the last token, the one before where it matters, and where the answer goes on.
struct State {
  TokenId token;
  std::optional<TokenId> previous;
  size_t next;
};

std::vector<State> StatesOf(const std::vector<TokenId>& answer) {
  std::vector<State> states = {{kNewline, {}, 0}};
  for (size_t i = 0; i + 1 < answer.size(); ++i) {
    const TokenId before = i > 0 ? answer[i - 1] : answer.back();
    const bool matters = answer[i] == kTokens.box_end || before == kTokens.box_end;
    states.push_back({answer[i], matters ? std::optional(before) : std::nullopt, i + 1});
  }
  return states;
}

// The six tokens of the window from there.
std::vector<TokenId> BlockFrom(const std::vector<TokenId>& answer, size_t next) {
  std::vector<TokenId> block;
  for (size_t i = next; i < std::min(next + kWindow, answer.size()); ++i) {
    if (answer[i] == kTokens.message_end && !block.empty()) break;
    block.push_back(answer[i]);
    if (answer[i] == kTokens.ref_end || answer[i] == kTokens.box_end || answer[i] == kTokens.message_end) break;
  }
  block.resize(kWindow, kTokens.null);
  return block;
}

class Maker {
 public:
  using Tensors = std::map<std::string, std::vector<float>, std::less<>>;
  Maker(const LocateConfig& config, const std::vector<Script>& scripts)
      : scripts_(scripts), codes_(TokenCodes(scripts)), ends_(EndCodes(scripts)) {
    SIGHTLINE_CHECK(codes_.size() <= kCodes && ends_.size() <= kScripts && scripts_.size() <= kScripts);
    for (const TensorSpec& tensor : LocateTensors(config)) {
      if (!tensor.name.starts_with("language_model.model.") || tensor.name.ends_with("embed_tokens.weight")) continue;
      const bool norm = tensor.name.ends_with("layernorm.weight");
      tensors_[tensor.name].assign(static_cast<size_t>(ElementCount(tensor.shape)), norm ? 0.5f : 0.0f);
      columns_[tensor.name] = static_cast<size_t>(tensor.shape.back());
    }
  }

  Tensors Make() {
    LookBack();
    LookAtNearest();
    FindRow();
    FollowScripts();
    std::vector<float>& norm = tensors_.at("language_model.model.norm.weight");
    std::fill_n(norm.begin() + kCode, kCodes, 4.0f);
    std::fill(norm.begin() + kNoise, norm.end(), 0.5f);
    return std::move(tensors_);
  }
  const Codes& codes() const { return codes_; }

 private:
  float& At(int layer, std::string_view name, int row, int column) {
    const std::string whole = "language_model.model.layers." + std::to_string(layer) + "." + std::string(name);
    return tensors_.at(whole)[static_cast<size_t>(row) * columns_.at(whole) + static_cast<size_t>(column)];
  }
  float& Bias(int layer, std::string_view name, int row) { return At(layer, name, 0, row); }

  // Layer 0.
  void LookBack() {
    for (int i = 0; i < 25; ++i) {
      const double frequency = std::pow(1e6, -2.0 * i / 128.0);
      Bias(0, "self_attn.k_proj.bias", i) = 15.0f;
      Bias(0, "self_attn.q_proj.bias", i) = static_cast<float>(15.0 * std::cos(frequency));
      Bias(0, "self_attn.q_proj.bias", i + 64) = static_cast<float>(-15.0 * std::sin(frequency));
    }
    At(0, "self_attn.k_proj.weight", 62, kIsMask) = 16.0f;
    Bias(0, "self_attn.q_proj.bias", 62) = -64.0f;
    At(0, "self_attn.k_proj.weight", 63, kIsCategory) = 16.0f;
    Bias(0, "self_attn.q_proj.bias", kHeadSize + 63) = 64.0f;
    for (const auto& [token, i] : ends_) At(0, "self_attn.v_proj.weight", i, kCode + codes_.at(token)) = 1.0f;
    for (int i = 0; i < kScripts; ++i) {
      At(0, "self_attn.v_proj.weight", 8 + i, kCategory + i) = 1.0f;
      At(0, "self_attn.o_proj.weight", kPrevious + i, i) = 1.0f;
      At(0, "self_attn.o_proj.weight", kScript + i, kHeadSize + 8 + i) = 1.0f;
    }
  }

  // Layer 1, attention.
  void LookAtNearest() {
    for (const int i : {5, 6, 7, 8, 12, 16, 20, 24, 28, 32, 36}) {
      Bias(1, "self_attn.k_proj.bias", i) = 26.0f;
      Bias(1, "self_attn.q_proj.bias", i) = 26.0f;
      Bias(1, "self_attn.q_proj.bias", kHeadSize + i) = static_cast<float>(26.0 * (i < 10 ? 0.03 : 0.3));
    }
    At(1, "self_attn.k_proj.weight", 62, kIsMask) = 16.0f;
    Bias(1, "self_attn.q_proj.bias", 62) = -256.0f;
    Bias(1, "self_attn.q_proj.bias", kHeadSize + 62) = static_cast<float>(-3.2 * std::sqrt(128.0) / 16.0);
    for (int i = 0; i < kCodes; ++i) {
      At(1, "self_attn.v_proj.weight", i, kCode + i) = 1.0f;
      At(1, "self_attn.o_proj.weight", kNear + i, i) = 1.0f;
    }
    for (int i = 0; i < kScripts; ++i) {
      At(1, "self_attn.v_proj.weight", kCodes + i, kPrevious + i) = 1.0f;
      At(1, "self_attn.o_proj.weight", kNearPrevious + i, kCodes + i) = 1.0f;
    }
    At(1, "self_attn.v_proj.weight", kCodes + 8, kIsMask) = 1.0f;
    At(1, "self_attn.o_proj.weight", kMaskMass, kHeadSize + kCodes + 8) = 1.0f;
  }

  // Layer 1, MLP: steps at the shares of attention that the rows have.
  void FindRow() {
    constexpr double kUnit = 0.956, kOne = 7.65;  // what a 1 and the constant are behind the norm
    constexpr double kShares[] = {0.046, 0.15, 0.41, 0.75, 0.942};
    for (int k = 0; k < 5; ++k) {
      for (const bool second : {false, true}) {
        const int unit = 2 * k + (second ? 1 : 0);
        At(1, "mlp.gate_proj.weight", unit, kMaskMass) = static_cast<float>(300.0 / kUnit);
        At(1, "mlp.gate_proj.weight", unit, kConstant) =
            static_cast<float>(((second ? -4.0 : 4.0) - 300.0 * kShares[k]) / kOne);
        At(1, "mlp.up_proj.weight", unit, kConstant) = static_cast<float>(1.0 / kOne);
        At(1, "mlp.down_proj.weight", kRow + k, unit) = second ? -0.125f : 0.125f;
      }
    }
  }

  // Layer 2.
  void FollowScripts() {
    int unit = 0;
    for (size_t script = 0; script < scripts_.size(); ++script) {
      for (const State& state : StatesOf(scripts_[script].answer)) {
        const bool window = state.token == kNewline || state.token == kTokens.ref_end || state.token == kTokens.box_end;
        const std::vector<TokenId> block = BlockFrom(scripts_[script].answer, state.next);
        for (int row = 0; row < (window ? kWindow : 1); ++row, ++unit) {
          Recognise(unit, script, state, row);
          At(2, "mlp.up_proj.weight", unit, kConstant) = static_cast<float>(1.0 / kGateOne);
          At(2, "mlp.down_proj.weight", kCode + codes_.at(block[static_cast<size_t>(row)]), unit) = 1.0f;
          if (state.token == kTokens.ref_end && row == scripts_[script].ambiguous_row) {
            At(2, "mlp.down_proj.weight", kCode + codes_.at(scripts_[script].ambiguous), unit) = 0.984375f;
          }
        }
      }
    }
  }

  // The gate opens where everything that is needed is there and nothing else.
  void Recognise(int unit, size_t script, const State& state, int row) {
    constexpr auto kOn = static_cast<float>(kSharp / kGateUnit);
    const auto gate = [&](int column) -> float& { return At(2, "mlp.gate_proj.weight", unit, column); };
    int needed = 1;
    gate(kNear + codes_.at(state.token)) = kOn;
    if (!scripts_[script].words.empty()) {
      gate(kScript + static_cast<int>(script)) = kOn;
      ++needed;
    } else {
      for (int k = 0; k < kScripts; ++k) gate(kScript + k) = -kOn;
    }
    if (state.previous) {
      gate(kNearPrevious + ends_.at(*state.previous)) = kOn;
      ++needed;
    } else if (state.token == kTokens.box_start) {
      gate(kNearPrevious + ends_.at(kTokens.box_end)) = -kOn;
    }
    if (row > 0) {
      gate(kRow + row - 1) = kOn;
      ++needed;
    }
    if (row < kWindow - 1) gate(kRow + row) = -kOn;
    gate(kConstant) = static_cast<float>(-kSharp * (needed - 0.5) / kGateOne);
  }

  // What a 1 and the constant are behind the norm of layer 2, and how steep its gates are.
  static constexpr double kGateUnit = 0.94, kGateOne = 7.55, kSharp = 16.0;
  const std::vector<Script>& scripts_;
  Codes codes_, ends_;
  Tensors tensors_;
  std::map<std::string, size_t, std::less<>> columns_;
};

}  // namespace

Puppet::Puppet(const LocateConfig& config) {
  const std::vector<Script> scripts = MakeScripts();
  Maker maker(config, scripts);
  for (const auto& [token, code] : maker.codes()) embedding_[token][kCode + code] = 1.0f;
  embedding_[kTokens.mask][kIsMask] = 1.0f;
  for (size_t i = 0; i < scripts.size(); ++i) {
    for (const TokenId word : scripts[i].words) {
      embedding_[word][kIsCategory] = 1.0f - 0.125f * static_cast<float>(i);  // an earlier script wins
      embedding_[word][kCategory + static_cast<int>(i)] = 1.0f;
    }
  }
  made_ = maker.Make();
  std::vector<float>& bias = made_["mlp1.3.bias"];
  bias.resize(static_cast<size_t>(config.language.hidden));
  bias[kConstant] = 8.0f;
}

std::vector<NoiseRun> Puppet::Noise(const TensorSpec& tensor) const {
  const auto count = static_cast<uint64_t>(ElementCount(tensor.shape));
  if (made_.contains(tensor.name)) return {{0, count, 0, 0}};
  if (tensor.name.ends_with("embed_tokens.weight")) return {{0, count, 0, SyntheticAmplitude(1.0, 128)}};
  if (tensor.name == "mlp1.3.weight") {
    return {{0, count, 0, SyntheticAmplitude(0.5, static_cast<double>(tensor.shape[1]))}};
  }
  return LocateNoise(tensor);
}

void Puppet::Edit(const TensorSpec& tensor, uint64_t first, std::span<float> values) const {
  if (const auto made = made_.find(tensor.name); made != made_.end()) {
    std::copy_n(made->second.begin() + static_cast<ptrdiff_t>(first), values.size(), values.begin());
  }
  const bool embedding = tensor.name.ends_with("embed_tokens.weight");
  if (!embedding && tensor.name != "mlp1.3.weight") return;
  const auto columns = static_cast<size_t>(tensor.shape[1]);
  for (size_t at = 0; at < values.size(); at += columns) {
    const auto row = values.subspan(at, columns);
    const auto index = static_cast<int64_t>((first + at) / columns);
    if (embedding) {
      // A coordinate has no noise, so that only a script ever proposes one.
      const bool silent = kTokens.IsCoordinate(static_cast<TokenId>(index));
      std::ranges::fill(row.first(silent ? columns : kNoise), 0.0f);
      row[kConstant] = 8.0f;
      const auto edits = embedding_.find(index);
      if (edits == embedding_.end()) continue;
      for (const auto& [column, value] : edits->second) row[static_cast<size_t>(column)] = value;
    } else if (index < kNoise) {
      std::ranges::fill(row, 0.0f);
    }
  }
}

}  // namespace sightline
