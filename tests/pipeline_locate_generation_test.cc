// Whole answers of the synthetic networks in float32 against the official generate(): ids, passes and the rule of each
// step; and drafts against plain decoding on the same networks.
#include <gtest/gtest.h>

#include "pipeline/pipeline.h"
#include "src/pipeline/locate_picture.h"
#include "tests/support/generation_goldens.h"
#include "tests/support/locate_models.h"

namespace sightline {
namespace {

constexpr LocatePrecision kFloat32{Precision::kF32, Precision::kF32};

const Tokenizer& Shipped() {
  static const Tokenizer tokenizer = [] {
    const auto files = ShippedTokenizer();
    return Tokenizer::Parse(files[0].contents, files[1].contents, files[2].contents, "shipped").value();
  }();
  return tokenizer;
}

// Networks by size and seed, loaded once.
LocateAnything& Network(const GenerationGolden& golden) {
  static const std::unique_ptr<Backend> backend = MakeCpuBackend({.isa = *DetectIsa()});
  static std::map<std::pair<std::string, uint64_t>, std::unique_ptr<LocateAnything>> networks;
  auto& network = networks[{golden.size, golden.seed}];
  if (network == nullptr) network = LoadSynthetic(*backend, golden.size, golden.seed, kFloat32);
  return *network;
}

// The question of a golden, ready to be answered.
struct Asked {
  LocatePrompt prompt;
  std::shared_ptr<const std::vector<float>> pictures;  // image rows in the order of the prompt

  std::unique_ptr<LocateAnything::Session> NewSession(LocateAnything& network) const {
    auto session = network.NewSession(std::ssize(prompt.ids) + 128);
    session->SetImages(pictures);
    return session;
  }
};

Asked Ask(const GenerationGolden& golden, LocateAnything& network) {
  std::vector<std::vector<float>> rows;
  std::vector<int64_t> picture_tokens;
  for (const auto& [seed, width, height] : golden.pictures) {
    const Image image{width, height, SyntheticRgb(seed, width, height)};
    const auto picture = PrepareLocatePicture(image, {golden.token_limit, std::nullopt}, "image").value();
    picture_tokens.push_back(picture.grid.tokens());
    rows.push_back(network.Encode(picture.patches, picture.grid).value());
  }
  LocateQuestion question{LocateTask::kRaw, {golden.question}, golden.system, true};
  Asked asked{MakeLocatePrompt(Shipped(), LocateTokens(), question, picture_tokens).value(), nullptr};
  auto pictures = std::make_shared<std::vector<float>>();
  for (const size_t picture : asked.prompt.pictures) {
    pictures->insert(pictures->end(), rows[picture].begin(), rows[picture].end());
  }
  asked.pictures = pictures;
  return asked;
}

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
  const auto goldens = ReadGenerationGoldens(std::filesystem::path(SIGHTLINE_TEST_DATA) / "locate" / file);
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
