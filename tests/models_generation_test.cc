// The generation loop: the official steps replayed, drafts against plain decoding, guards, limits, cancelling.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "models/models.h"
#include "tests/support/generation_goldens.h"
#include "tests/support/hash_model.h"

namespace sightline {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// ---- official steps

// Gives the probabilities that the official code recorded, and checks that it is asked the official questions.
class ReplayModel : public TokenModel {
 public:
  explicit ReplayModel(const GenerationGolden& golden) : golden_(golden) {}

  int vocabulary() const override { return 152681; }
  int64_t length() const override { return length_; }
  int64_t capacity() const override { return 131072; }
  void Crop(int64_t tokens) override { length_ = tokens; }

  Status Forward(const Step& step, std::stop_token, std::vector<float>* logits) override {
    if (next_ == golden_.steps.size()) return Fail(Code::kInternal, "replay: more passes than the official code");
    const GenerationGolden::Step& expected = golden_.steps[next_++];
    length_ += std::ssize(step.ids);
    EXPECT_EQ(length_, expected.position);
    EXPECT_EQ(step.window, expected.window);
    EXPECT_EQ(step.logit_rows, expected.window ? 0 : 1);
    const auto& ids = expected.numbers["top_ids"];
    logits->assign(ids.size() * static_cast<size_t>(vocabulary()), -700.0f);
    for (size_t row = 0; row < ids.size(); ++row) {
      for (size_t i = 0; i < ids[row].size(); ++i) {
        Set(row, ids[row][i].get<TokenId>(), expected.numbers["top_probs"][row][i].get<double>(), logits);
      }
    }
    if (expected.window) SetFrame(expected.numbers["row_frame_probs"], logits);
    return {};
  }

 private:
  void Set(size_t row, TokenId id, double probability, std::vector<float>* logits) const {
    if (probability == 0) return;
    (*logits)[row * static_cast<size_t>(vocabulary()) + static_cast<size_t>(id)] =
        static_cast<float>(std::log(probability));
  }

  void SetFrame(const nlohmann::json& probabilities, std::vector<float>* logits) const {
    const LocateTokens tokens;
    Set(0, tokens.box_start, probabilities["p0_box"], logits);
    Set(0, tokens.ref_start, probabilities["p0_ref"], logits);
    Set(1, tokens.none, probabilities["p1_none"], logits);
    Set(2, tokens.box_end, probabilities["p2_box_end"], logits);
    Set(3, tokens.null, probabilities["p3_null"], logits);
    Set(4, tokens.null, probabilities["p4_null"], logits);
    Set(5, tokens.box_end, probabilities["p5_box_end"], logits);
    Set(5, tokens.null, probabilities["p5_null"], logits);
    Set(5, tokens.message_end, probabilities["p5_im_end"], logits);
  }

  const GenerationGolden& golden_;
  size_t next_ = 0;
  int64_t length_ = 0;
};

// Recorded probabilities are processed already: only cases where processing changes nothing can be replayed.
bool CanReplay(const GenerationGolden& golden) {
  const SamplingOptions& sampling = golden.options.sampling;
  return sampling.repetition_penalty == 1 && sampling.top_p == 1 && sampling.top_k == 0;
}

void ReplayAll(const std::string& file, size_t cases) {
  size_t replayed = 0;
  for (const GenerationGolden& golden :
       ReadGenerationGoldens(std::filesystem::path(SIGHTLINE_TEST_DATA) / "locate" / file)) {
    if (!CanReplay(golden)) continue;
    ReplayModel model(golden);
    ExpectGeneration(golden, model, std::vector<TokenId>(golden.prompt_tokens, 9707));
    ++replayed;
  }
  EXPECT_EQ(replayed, cases);
}

TEST(Generation, TakesTheOfficialStepsOfTheTinyModel) { ReplayAll("tiny_generate_greedy.json", 22); }
TEST(Generation, TakesTheOfficialStepsOfThePuppet) { ReplayAll("puppet_generate_greedy.json", 32); }

// ---- properties over many models

const std::vector<TokenId> kPrompt{19, 3, 10, 10, 4, 20, 19};

GenerationOptions Options(DecodingMode mode, int64_t max_new_tokens = 80) {
  GenerationOptions options;
  options.mode = mode;
  options.max_new_tokens = max_new_tokens;
  options.tokens = HashTokens();
  return options;
}

std::vector<SamplingOptions> ManySamplings() {
  return {{},
          {.repetition_penalty = 1.3},
          {.top_p = 0.9},
          {.temperature = 0.9, .seed = 5},
          {.repetition_penalty = 1.1, .temperature = 1.5, .top_p = 0.95, .top_k = 20, .seed = 6}};
}

Generation Answer(TokenModel& model, const GenerationOptions& options, const std::vector<TokenId>& prompt = kPrompt) {
  auto answer = Generate(model, prompt, options);
  EXPECT_TRUE(answer) << answer.error().message;
  return answer.value_or(Generation());
}

void ExpectSameAnswer(const Generation& a, const Generation& b) {
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.probabilities, b.probabilities);
  EXPECT_EQ(a.finish_reason, b.finish_reason);
}

// The same question with and without drafts, of many models; returns passes with and without.
std::pair<int64_t, int64_t> CompareDrafts(DecodingMode mode, const SamplingOptions& sampling) {
  std::pair<int64_t, int64_t> passes;
  const uint64_t models = sampling.temperature == 0 ? 200 : 50;
  for (uint64_t seed = 0; seed < models; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    GenerationOptions options = Options(mode);
    options.sampling = sampling;
    HashModel model({.seed = seed}), plain_model({.seed = seed});
    const Generation drafted = Answer(model, options);
    options.draft = false;
    const Generation plain = Answer(plain_model, options);
    ExpectSameAnswer(drafted, plain);
    EXPECT_LE(model.widest(), std::max(std::ssize(kPrompt), int64_t{6}) + kWindow);
    passes.first += drafted.forwards, passes.second += plain.forwards;
  }
  return passes;
}

TEST(Generation, SlowByDraftsIsPlainSlowInFewerPasses) {
  for (const SamplingOptions& sampling : ManySamplings()) {
    const auto [drafted, plain] = CompareDrafts(DecodingMode::kSlow, sampling);
    EXPECT_LT(sampling.temperature == 0 ? 2 * drafted : drafted, plain);
  }
}

TEST(Generation, HybridByDraftsIsPlainHybridInFewerPasses) {
  for (const SamplingOptions& sampling : ManySamplings()) {
    const auto [drafted, plain] = CompareDrafts(DecodingMode::kHybrid, sampling);
    EXPECT_LT(drafted, plain);
  }
}

TEST(Generation, SlowIsTheMostProbableTokenAgainAndAgain) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    HashModel model({.seed = seed});
    std::vector<TokenId> ids = kPrompt;
    while (ids.size() < kPrompt.size() + 50 && (ids.size() == kPrompt.size() || ids.back() != 20)) {
      const std::vector<float> row = model.Row(ids);
      ids.push_back(static_cast<TokenId>(std::ranges::max_element(row) - row.begin()));
    }
    GenerationOptions options = Options(DecodingMode::kSlow, 50);
    options.reference = true;
    const Generation answer = Answer(model, options);
    EXPECT_THAT(answer.ids, ElementsAreArray(std::span(ids).subspan(kPrompt.size())));
    EXPECT_EQ(answer.forwards, std::ssize(answer.ids));
  }
}

TEST(Generation, EndsWithinItsLimitsInEveryMode) {
  for (const DecodingMode mode : {DecodingMode::kSlow, DecodingMode::kFast, DecodingMode::kHybrid}) {
    for (const bool reference : {false, true}) {
      for (uint64_t seed = 0; seed < 200; ++seed) {
        GenerationOptions options = Options(mode, 1 + static_cast<int64_t>(seed % 40));
        options.reference = reference;
        HashModel model({.seed = seed, .answer_slips = seed % 60, .window_slips = seed % 70});
        const Generation answer = Answer(model, options);
        EXPECT_LE(std::ssize(answer.ids), options.max_new_tokens + (reference ? kWindow - 1 : 0));
        EXPECT_LE(answer.forwards, options.max_new_tokens);
        EXPECT_EQ(answer.probabilities.size(), answer.ids.size());
        for (const double probability : answer.probabilities) EXPECT_TRUE(probability >= 0 && probability <= 1);
        if (answer.finish_reason == FinishReason::kEnd) {
          EXPECT_EQ(answer.ids.back(), options.tokens.message_end);
        }
        if (answer.finish_reason == FinishReason::kLength) {
          EXPECT_GE(std::ssize(answer.ids), options.max_new_tokens);
        }
      }
    }
  }
}

TEST(Generation, LeavesOnlyPromptAndAnswerInTheModel) {
  for (const DecodingMode mode : {DecodingMode::kSlow, DecodingMode::kFast, DecodingMode::kHybrid}) {
    for (uint64_t seed = 0; seed < 100; ++seed) {
      HashModel model({.seed = seed});
      const Generation answer = Answer(model, Options(mode));
      std::vector<TokenId> all = kPrompt;
      all.insert(all.end(), answer.ids.begin(), answer.ids.end());
      ASSERT_LE(model.fed().size(), all.size());
      EXPECT_THAT(model.fed(), ElementsAreArray(std::span(all).first(model.fed().size())));
    }
  }
}

TEST(Generation, TakesAPromptThatIsPartlyInTheModel) {
  for (const DecodingMode mode : {DecodingMode::kSlow, DecodingMode::kFast, DecodingMode::kHybrid}) {
    HashModel fresh({.seed = 3});
    const Generation expected = Answer(fresh, Options(mode));
    for (size_t known = 1; known <= kPrompt.size(); ++known) {
      HashModel model({.seed = 3});
      std::vector<float> logits;
      const auto prefix = std::span(kPrompt).first(known);
      ASSERT_TRUE(model.Forward({.ids = prefix, .last = prefix.back()}, {}, &logits));
      ExpectSameAnswer(Answer(model, Options(mode)), expected);
    }
  }
}

TEST(Generation, FillsTheModelAndNoMore) {
  for (const DecodingMode mode : {DecodingMode::kSlow, DecodingMode::kFast, DecodingMode::kHybrid}) {
    for (const bool reference : {false, true}) {
      for (uint64_t seed = 0; seed < 50; ++seed) {
        HashModel model({.seed = seed, .capacity = 24});
        GenerationOptions options = Options(mode, 1000);
        options.reference = reference;
        const Generation answer = Answer(model, options);
        EXPECT_LE(std::ssize(kPrompt) + std::ssize(answer.ids), 24 + (reference ? kWindow - 1 : 0));
      }
    }
  }
}

TEST(Generation, DependsOnTheSeedOfSamplingAlone) {
  GenerationOptions options = Options(DecodingMode::kHybrid);
  options.sampling = {.temperature = 2, .seed = 1};
  HashModel first({.seed = 8}), again({.seed = 8}), other({.seed = 8});
  const Generation answer = Answer(first, options);
  ExpectSameAnswer(Answer(again, options), answer);
  options.sampling.seed = 2;
  EXPECT_NE(Answer(other, options).ids, answer.ids);
}

// ---- scripts

// Rows by script: `next` gives the likely token of plain decoding behind a context, `window` the six of a window.
class ScriptedModel : public TokenModel {
 public:
  using Next = std::function<TokenId(std::span<const TokenId> answer)>;
  using Window = std::function<std::vector<TokenId>(std::span<const TokenId> answer)>;
  ScriptedModel(Next next, Window window) : next_(std::move(next)), window_(std::move(window)) {}

  // `id` gets a logit of its own in one row of every window, 0 being unlikely and 10 likely.
  void AddToWindows(size_t row, TokenId id, float logit) { extra_.push_back({row, id, logit}); }

  int vocabulary() const override { return kHashVocabulary; }
  int64_t length() const override { return std::ssize(fed_); }
  int64_t capacity() const override { return 4096; }
  void Crop(int64_t tokens) override { fed_.resize(static_cast<size_t>(tokens)); }

  Status Forward(const Step& step, std::stop_token, std::vector<float>* logits) override {
    fed_.insert(fed_.end(), step.ids.begin(), step.ids.end());
    logits->clear();
    const auto answer = std::span(std::as_const(fed_)).subspan(kPrompt.size());
    for (int64_t back = step.logit_rows - 1; back >= 0; --back) {
      AppendRow(next_(answer.first(answer.size() - static_cast<size_t>(back))), logits);
    }
    if (!step.window) return {};
    const size_t first = logits->size();
    for (const TokenId id : window_(answer)) AppendRow(id, logits);
    for (const Extra& extra : extra_) {
      (*logits)[first + extra.row * kHashVocabulary + static_cast<size_t>(extra.id)] = extra.logit;
    }
    return {};
  }

 private:
  struct Extra {
    size_t row;
    TokenId id;
    float logit;
  };

  static void AppendRow(TokenId likely, std::vector<float>* logits) {
    logits->resize(logits->size() + kHashVocabulary, 0.0f);
    *(logits->end() - kHashVocabulary + likely) = 10;
  }

  Next next_;
  Window window_;
  std::vector<Extra> extra_;
  std::vector<TokenId> fed_;
};

// Plain decoding and windows both follow one answer. Windows end with </ref> or </box>, as they are trained to.
ScriptedModel Follow(const std::vector<TokenId>& script) {
  const auto at = [script](size_t i) { return i < script.size() ? script[i] : TokenId{18}; };
  return ScriptedModel([at](auto answer) { return at(answer.size()); },
                       [at](auto answer) {
                         std::vector<TokenId> window(kWindow, 18);
                         for (size_t i = 0; i < window.size(); ++i) {
                           window[i] = at(answer.size() + i);
                           if (window[i] == 14 || window[i] == 16) break;
                         }
                         return window;
                       });
}

const std::vector<TokenId> kOneBox{13, 2, 14, 15, 30, 31, 32, 33, 16, 20};

TEST(Generation, NeedsOnePassABoxInHybridMode) {
  ScriptedModel model = Follow(kOneBox);
  std::vector<std::string> steps;
  const auto answer = Generate(model, kPrompt, Options(DecodingMode::kHybrid), {}, [&](const GenerationStep& step) {
    steps.push_back(std::string(NameOf(step.type)) + " " + std::to_string(step.forwards));
    EXPECT_EQ(step.probabilities.size(), step.appended.size());
  });
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->ids, kOneBox);
  EXPECT_THAT(steps, ElementsAre("ref_object 1", "continue_ar 2", "continue_ar 2", "coord_box 2", "im_end 3"));
  EXPECT_EQ(answer->switches_to_single, 1);
}

// "<ref>"; the label and "<box>", for which its window is the draft; the rest.
TEST(Generation, NeedsAPassForAWindowInSlowMode) {
  ScriptedModel model = Follow(kOneBox);
  const Generation answer = Answer(model, Options(DecodingMode::kSlow));
  EXPECT_EQ(answer.ids, kOneBox);
  EXPECT_EQ(answer.forwards, 3);
}

TEST(Generation, EndsWhereTheFirstRowOfAWindowSaysSo) {
  const auto ending = [](auto) { return std::vector<TokenId>{20, 18, 18, 18, 18, 18}; };
  for (const DecodingMode mode : {DecodingMode::kHybrid, DecodingMode::kFast}) {
    for (const bool reference : {false, true}) {
      ScriptedModel model([](auto) { return 20; }, ending);
      for (size_t row = 1; row <= 4; ++row) model.AddToWindows(row, 40, 1);
      GenerationOptions options = Options(mode, 12);
      options.reference = reference;
      const Generation answer = Answer(model, options);
      if (reference) {
        EXPECT_THAT(answer.ids, ElementsAre(15, 40, 40, 40, 40, 16, 15, 40, 40, 40, 40, 16));
        EXPECT_EQ(answer.finish_reason, FinishReason::kLength);
      } else {
        EXPECT_THAT(answer.ids, ElementsAre(20));
        EXPECT_EQ(answer.finish_reason, FinishReason::kEnd);
      }
    }
  }
}

// Windows see the right first token of a text and stutter behind it.
TEST(Generation, WritesTextTokenByTokenInHybridMode) {
  const std::vector<TokenId> script{13, 1, 2, 3, 4, 6, 7, 8, 14, 15, 30, 31, 32, 33, 16, 20};
  const auto next = [&](auto answer) { return answer.size() < script.size() ? script[answer.size()] : TokenId{20}; };
  const auto window = [&](std::span<const TokenId> answer) {
    std::vector<TokenId> ids;
    for (size_t i = answer.size(); i < answer.size() + 6; ++i) ids.push_back(i < script.size() ? script[i] : 18);
    if (answer.empty()) ids[3] = ids[2];
    return ids;
  };
  ScriptedModel model(next, window), reference_model(next, window);
  EXPECT_EQ(Answer(model, Options(DecodingMode::kHybrid)).ids, script);
  GenerationOptions reference = Options(DecodingMode::kHybrid, 6);
  reference.reference = true;
  EXPECT_THAT(Answer(reference_model, reference).ids, ElementsAre(13, 1, 2, 2, 4, 6));
}

TEST(Generation, EndsTheThirdTimeALabelGetsTheSameBox) {
  for (const DecodingMode mode : {DecodingMode::kHybrid, DecodingMode::kFast, DecodingMode::kSlow}) {
    std::vector<TokenId> script{13, 2, 14};
    for (int i = 0; i < 50; ++i) script.insert(script.end(), {15, 30, 31, 32, 33, 16});
    ScriptedModel model = Follow(script);
    const Generation answer = Answer(model, Options(mode));
    EXPECT_EQ(answer.ids.size(), 3u + 3 * 6);
    EXPECT_EQ(answer.finish_reason, FinishReason::kLoop);
  }
}

TEST(Generation, TakesTheSameBoxOfAnotherLabelForNoLoop) {
  std::vector<TokenId> script;
  for (TokenId label = 0; label < 5; ++label) script.insert(script.end(), {13, label, 14, 15, 30, 31, 32, 33, 16});
  script.push_back(20);
  ScriptedModel model = Follow(script);
  const Generation answer = Answer(model, Options(DecodingMode::kHybrid));
  EXPECT_EQ(answer.ids, script);
  EXPECT_EQ(answer.finish_reason, FinishReason::kEnd);
}

TEST(Generation, EndsWhenTokensGoInCircles) {
  for (const size_t period : {size_t{1}, size_t{5}, size_t{20}, size_t{32}}) {
    std::vector<TokenId> script{13};
    for (size_t i = 0; i < 200; ++i) script.push_back(static_cast<TokenId>(i % period == 0 ? 0 : 1 + i % 9));
    for (size_t i = 1 + period; i < script.size(); ++i) script[i] = script[i - period];
    ScriptedModel model = Follow(script);
    const Generation answer = Answer(model, Options(DecodingMode::kSlow, 1000));
    EXPECT_EQ(answer.finish_reason, FinishReason::kLoop);
    EXPECT_LE(answer.ids.size(), 1 + std::max(size_t{48}, 3 * period));
  }
}

// A window whose second coordinate is not sure, and plain decoding that then leaves the grammar of a box.
TEST(Generation, SaysWhenTheRepairOfABoxEndsWithoutAnEnd) {
  ScriptedModel model([](auto answer) { return answer.size() < 3 ? TokenId{31} : TokenId{4}; },
                      [](auto) { return std::vector<TokenId>{15, 30, 31, 32, 33, 16}; });
  model.AddToWindows(2, 120, 9.9f);
  const Generation answer = Answer(model, Options(DecodingMode::kHybrid));
  EXPECT_THAT(answer.ids, ElementsAre(15, 30, 31, 4));
  EXPECT_EQ(answer.finish_reason, FinishReason::kMalformed);
}

// ---- cancelling and errors

class CancellingModel : public HashModel {
 public:
  CancellingModel(int passes, std::stop_source source)
      : HashModel({.seed = 1, .answer_slips = 0}), passes_(passes), source_(std::move(source)) {}
  Status Forward(const Step& step, std::stop_token stop, std::vector<float>* logits) override {
    ++forwards;
    if (--passes_ == 0) source_.request_stop();
    return HashModel::Forward(step, stop, logits);
  }
  int forwards = 0;

 private:
  int passes_;
  std::stop_source source_;
};

TEST(Generation, StopsInThePassThatIsCancelled) {
  for (const DecodingMode mode : {DecodingMode::kHybrid, DecodingMode::kFast, DecodingMode::kSlow}) {
    std::stop_source source;
    CancellingModel model(2, source);
    const auto answer = Generate(model, kPrompt, Options(mode), source.get_token());
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::kCancelled);
    EXPECT_EQ(model.forwards, 2);
    const auto again = Generate(model, kPrompt, Options(mode), source.get_token());
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, Code::kCancelled);
    EXPECT_EQ(model.forwards, 2);
  }
}

class NumberlessModel : public HashModel {
 public:
  NumberlessModel() : HashModel({.seed = 1}) {}
  Status Forward(const Step& step, std::stop_token stop, std::vector<float>* logits) override {
    const Status status = HashModel::Forward(step, stop, logits);
    logits->back() = std::numeric_limits<float>::quiet_NaN();
    return status;
  }
};

TEST(Generation, RefusesLogitsThatAreNoNumbers) {
  for (const DecodingMode mode : {DecodingMode::kHybrid, DecodingMode::kFast}) {
    NumberlessModel model;
    const auto answer = Generate(model, kPrompt, Options(mode));
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::kNumeric);
  }
  NumberlessModel model;
  GenerationOptions options = Options(DecodingMode::kSlow);
  options.draft = false;
  EXPECT_EQ(Generate(model, kPrompt, options).error().code, Code::kNumeric);
}

TEST(Generation, RefusesAPromptThatDoesNotFit) {
  HashModel model({.capacity = 7});
  const auto answer = Generate(model, kPrompt, Options(DecodingMode::kSlow));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kInvalidRequest);
  EXPECT_THAT(answer.error().message, HasSubstr("prompt has 7 tokens"));
  EXPECT_FALSE(Generate(model, {}, Options(DecodingMode::kSlow)));
}

TEST(Generation, RefusesOptionsOutOfRange) {
  const double nan = std::nan("");
  const std::vector<std::pair<std::string, SamplingOptions>> bad{{"repetition_penalty", {.repetition_penalty = 0}},
                                                                 {"repetition_penalty", {.repetition_penalty = nan}},
                                                                 {"repetition_penalty", {.repetition_penalty = 11}},
                                                                 {"temperature", {.temperature = -1}},
                                                                 {"temperature", {.temperature = 1e-30}},
                                                                 {"temperature", {.temperature = nan}},
                                                                 {"top_p", {.top_p = 0}},
                                                                 {"top_p", {.top_p = 1.01}},
                                                                 {"top_p", {.top_p = nan}},
                                                                 {"top_k", {.top_k = -1}}};
  for (const auto& [param, sampling] : bad) {
    GenerationOptions options;
    options.sampling = sampling;
    const Status status = CheckGenerationOptions(options);
    ASSERT_FALSE(status) << param;
    EXPECT_EQ(status.error().param, param);
  }
  GenerationOptions options;
  EXPECT_TRUE(CheckGenerationOptions(options));
  options.max_new_tokens = 0;
  EXPECT_EQ(CheckGenerationOptions(options).error().param, "max_new_tokens");
}

}  // namespace
}  // namespace sightline
