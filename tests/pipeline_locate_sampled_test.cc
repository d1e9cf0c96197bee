// Sampled answers of the official generate(). Its random numbers cannot be had here, so each of its steps is put to our
// network with the tokens that it drew: the probabilities after penalty, temperature, nucleus and top-k, the rule that
// the rows lead to and the tokens appended must be the official ones; and our own draws must follow them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "src/models/box_decoder.h"
#include "tests/support/locate_questions.h"

namespace sightline {
namespace {

using nlohmann::json;
using ::testing::ElementsAreArray;

// decode.json's tolerance (goldens README), plus what is lost by the file's seven decimals.
double Tolerance(double probability) { return 1e-3 * probability + 1e-7; }

// A sampled golden as it is followed step by step: prompt and answer so far, and the rows of the step at hand.
class FollowedGolden {
 public:
  explicit FollowedGolden(const GenerationGolden& golden)
      : golden_(golden),
        asked_(Ask(golden, Network(golden))),
        session_(asked_.NewSession(Network(golden))),
        ids_(asked_.prompt.ids),
        seen_(session_->vocabulary()) {
    for (const TokenId id : ids_) seen_.Add(id);
  }

  // The processed rows behind what was appended so far.
  const std::vector<Distribution>& Rows(const GenerationGolden::Step& step) {
    EXPECT_EQ(std::ssize(ids_), step.position);
    const std::vector<TokenId> fed(ids_.begin() + session_->length(), ids_.end());
    EXPECT_TRUE(session_->Forward({fed, fed.back(), step.window, step.window ? 0 : 1}, {}, &logits_));
    const auto size = static_cast<size_t>(session_->vocabulary());
    rows_.clear();
    for (size_t first = 0; first < logits_.size(); first += size) {
      const auto row = std::span(logits_).subspan(first, size);
      ProcessLogits(row, seen_.ids(), golden_.options.sampling);
      rows_.emplace_back(row);
    }
    return rows_;
  }

  void Append(const std::vector<TokenId>& ids) {
    for (const TokenId id : ids) {
      ids_.push_back(id);
      seen_.Add(id);
    }
  }

 private:
  const GenerationGolden& golden_;
  Asked asked_;
  std::unique_ptr<LocateAnything::Session> session_;
  std::vector<TokenId> ids_;
  SeenTokens seen_;
  std::vector<float> logits_;
  std::vector<Distribution> rows_;
};

// The file has the twenty most probable tokens of each row; with fewer that are possible, every other has probability
// 0.
void ExpectProbabilities(const std::vector<Distribution>& rows, const json& numbers) {
  ASSERT_EQ(rows.size(), numbers["top_ids"].size());
  for (size_t row = 0; row < rows.size(); ++row) {
    SCOPED_TRACE("row " + std::to_string(row));
    const auto ids = numbers["top_ids"][row].get<std::vector<TokenId>>();
    const auto probabilities = numbers["top_probs"][row].get<std::vector<double>>();
    size_t possible = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_NEAR(rows[row].Of(ids[i]), probabilities[i], Tolerance(probabilities[i])) << "token " << ids[i];
      if (probabilities[i] > 0) possible = i + 1;
    }
    // A nucleus may end between two tokens on rounding alone.
    if (possible < ids.size()) {
      EXPECT_LE(rows[row].Most(ids.size()).size(), possible + 1);
    }
  }
}

void ExpectRuleAndTokens(const std::vector<Distribution>& rows, const GenerationGolden::Step& step, DecodingMode mode) {
  Block block;
  std::ranges::copy(step.numbers["block"].get<std::vector<TokenId>>(), block.begin());
  constexpr std::array kFrames{"empty_box", "legal_box", "illegal_box"};
  EXPECT_EQ(kFrames[static_cast<size_t>(TestFrame(rows, LocateTokens()))], step.numbers["frame"]);
  const BlockChoice choice = ChooseBlock(rows, block, mode, LocateTokens());
  EXPECT_EQ(choice.block, block);
  EXPECT_EQ(choice.source == BlockSource::kBox, step.numbers.contains("bbox"));
  EXPECT_EQ(choice.source == BlockSource::kLabel, step.numbers.contains("ref"));
  for (size_t row = 0; row < rows.size() && choice.source == BlockSource::kTokens; ++row) {
    EXPECT_GT(rows[row].Of(block[row]), 0) << "row " << row;
  }
  const Continuation continuation = ContinueWith(block, mode, LocateTokens());
  EXPECT_EQ(NameOf(continuation.type), step.type);
  EXPECT_THAT(std::span(continuation.tokens).first(continuation.count), ElementsAreArray(step.appended));
}

// Evenly spread random numbers draw a token as often as its official probability says, one more or less.
void ExpectDraws(const Distribution& row, const json& ids, const json& probabilities) {
  constexpr int kDraws = 32;
  std::map<TokenId, int> drawn;
  for (int i = 0; i < kDraws; ++i) ++drawn[row.At((i + 0.5) / kDraws)];
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_NEAR(drawn[ids[i].get<TokenId>()], kDraws * probabilities[i].get<double>(), 1.01) << "token " << ids[i];
  }
}

void ExpectOfficialSteps(const std::string& file, size_t cases) {
  const auto goldens = LocateGoldens(file);
  ASSERT_EQ(goldens.size(), cases);
  for (const GenerationGolden& golden : goldens) {
    SCOPED_TRACE(golden.name + ": " + golden.question);
    FollowedGolden followed(golden);
    std::vector<TokenId> answer;
    for (const GenerationGolden::Step& step : golden.steps) {
      SCOPED_TRACE("step at " + std::to_string(step.position));
      const std::vector<Distribution>& rows = followed.Rows(step);
      ExpectProbabilities(rows, step.numbers);
      if (step.window) ExpectRuleAndTokens(rows, step, golden.options.mode);
      for (size_t row = 0; row < rows.size(); ++row) {
        ExpectDraws(rows[row], step.numbers["top_ids"][row], step.numbers["top_probs"][row]);
      }
      followed.Append(step.appended);
      answer.insert(answer.end(), step.appended.begin(), step.appended.end());
    }
    EXPECT_EQ(answer, golden.ids);
  }
}

TEST(LocateSampled, StepsOfTheTinyModelAreTheOfficialOnes) { ExpectOfficialSteps("tiny_generate_sampled.json", 4); }
TEST(LocateSampled, StepsOfThePuppetAreTheOfficialOnes) { ExpectOfficialSteps("puppet_generate_sampled.json", 1); }

}  // namespace
}  // namespace sightline
