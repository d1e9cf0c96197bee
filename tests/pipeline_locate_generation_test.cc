// Whole answers of the synthetic networks against the official generate(): ids, passes and the rule of each step;
// drafts against plain decoding on the same networks.
#include <gtest/gtest.h>

#include "tests/support/locate_questions.h"

namespace sightline {
namespace {

Generation AnswerOf(const Asked& asked, LocateAnything& network, const GenerationOptions& options) {
  const auto session = asked.NewSession(network);
  return Generate(*session, asked.prompt.ids, options).value();
}

// Our own answer, which drafts must not change.
void ExpectDraftsChangeNothing(const GenerationGolden& golden, const Asked& asked, LocateAnything& network) {
  GenerationOptions options = golden.options;
  options.reference = false;
  const Generation drafted = AnswerOf(asked, network, options);
  options.draft = false;
  const Generation plain = AnswerOf(asked, network, options);
  EXPECT_EQ(drafted.ids, plain.ids) << golden.question;
  EXPECT_EQ(drafted.probabilities, plain.probabilities) << golden.question;
  EXPECT_LE(drafted.forwards, plain.forwards) << golden.question;
  if (options.mode == DecodingMode::kSlow && drafted.finish_reason != FinishReason::kLoop) {
    EXPECT_EQ(drafted.ids, golden.ids) << golden.question;
  }
}

void ExpectFirst(size_t count, const std::string& file) {
  const auto goldens = LocateGoldens(file);
  ASSERT_GE(goldens.size(), count);
  for (const GenerationGolden& golden : std::span(goldens).first(count)) {
    LocateAnything& network = Network(golden);
    const Asked asked = Ask(golden, network);
    const auto session = asked.NewSession(network);
    ExpectGeneration(golden, *session, asked.prompt.ids);
    ExpectDraftsChangeNothing(golden, asked, network);
  }
}

TEST(LocateGeneration, OfThePuppetIsTheOfficialOne) { ExpectFirst(6, "puppet_generate_greedy.json"); }
TEST(LocateGeneration, Long_OfThePuppetIsTheOfficialOne) { ExpectFirst(33, "puppet_generate_greedy.json"); }
TEST(LocateGeneration, Long_OfTheTinyModelIsTheOfficialOne) { ExpectFirst(36, "tiny_generate_greedy.json"); }

}  // namespace
}  // namespace sightline
