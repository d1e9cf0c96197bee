// LocateAnything's engine as the server uses it: caches, clients that leave, many at once. The network is noise, so its
// answers mean nothing, but every picture and question has its own.
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "pipeline/pipeline.h"
#include "tests/support/temporary_folder.h"
#include "weights/weights.h"

namespace sightline {
namespace {

LocateRequest Ask(int picture, const std::string& query) {
  auto image = std::make_shared<DecodedImage>();
  image->image = {160, 96, SyntheticRgb(static_cast<uint64_t>(picture), 160, 96)};
  LocateRequest request;
  request.pictures.push_back({image, "picture " + std::to_string(picture)});
  request.question.query = {query};
  request.generation.max_new_tokens = 12;
  return request;
}

// What an answer says, with its probabilities to the last bit.
using Said = std::pair<std::string, std::vector<double>>;
Said SaidBy(const Result<LocateAnswer>& answer) {
  EXPECT_TRUE(answer) << answer.error().message;
  return answer ? Said{answer->text, answer->generation.probabilities} : Said{};
}

class LocateEngineTest : public testing::Test {
 protected:
  static std::unique_ptr<LocateEngine> Open(LocateEngineOptions options = {}) {
    static TemporaryFolder folder;
    const std::filesystem::path weights = folder.path() / "tiny";
    if (!std::filesystem::exists(weights)) {
      SyntheticLocateOptions tiny{.size = "tiny", .seed = 1, .folder = weights, .tokenizer = {}};
      for (const TokenizerFile& file : ShippedTokenizer()) tiny.tokenizer.emplace_back(file.name, file.contents);
      const Status written = WriteSyntheticLocateAnything(tiny);
      EXPECT_TRUE(written) << written.error().message;
    }
    options.cache_folder = folder.path();
    auto engine = LocateEngine::Open(*OpenLocateWeights({.folder = weights}), options);
    EXPECT_TRUE(engine) << engine.error().message;
    return std::move(*engine);
  }
};

TEST_F(LocateEngineTest, AnswersDoNotDependOnTheCaches) {
  LocateEngineOptions without;
  without.picture_cache_bytes = without.prefix_cache_bytes = 0;
  const auto forgetful = Open(without);
  const auto engine = Open();
  const Said car = SaidBy(forgetful->Run(Ask(1, "car")));
  EXPECT_EQ(SaidBy(engine->Run(Ask(1, "car"))), car);
  const auto again = engine->Run(Ask(1, "car"));
  EXPECT_EQ(SaidBy(again), car);
  EXPECT_TRUE(again->pictures[0].from_cache);
  EXPECT_EQ(again->cached_tokens, again->prompt_tokens - 1) << "all but the token that the answer begins with";
  const auto person = engine->Run(Ask(1, "person"));
  EXPECT_EQ(SaidBy(person), SaidBy(forgetful->Run(Ask(1, "person"))));
  EXPECT_GT(person->cached_tokens, person->image_tokens) << "the picture stands before the question";
  EXPECT_EQ(SaidBy(engine->Run(Ask(2, "car"))), SaidBy(forgetful->Run(Ask(2, "car"))));
  EXPECT_EQ(forgetful->load().scene_cache_hits + forgetful->load().prefix_cache_hits, 0U);
}

TEST_F(LocateEngineTest, CachesForgetThePictureThatWasNotAskedAboutLongest) {
  const auto all = Open();
  const auto first = all->Run(Ask(1, "car"));
  const Said expected = SaidBy(first);
  // Room for the rows of two of three pictures.
  const size_t rows = static_cast<size_t>(first->image_tokens * all->info().config.language.hidden) * sizeof(float);
  LocateEngineOptions small;
  small.picture_cache_bytes = 2 * rows + rows / 2;
  const auto engine = Open(small);
  for (const int picture : {1, 2, 1, 3}) EXPECT_TRUE(engine->Run(Ask(picture, "car")));
  const auto kept = engine->Run(Ask(1, "car"));
  EXPECT_TRUE(kept->pictures[0].from_cache);
  EXPECT_EQ(SaidBy(kept), expected);
  EXPECT_FALSE(engine->Run(Ask(2, "car"))->pictures[0].from_cache);
}

TEST_F(LocateEngineTest, WorkEndsWithinOneStepOfTheClientsLeaving) {
  const auto engine = Open();
  const Said expected = SaidBy(engine->Run(Ask(1, "car")));
  std::stop_source gone;
  int steps = 0;
  LocateRequest request = Ask(1, "car");
  request.stop = gone.get_token();
  request.progress = [&](const LocateProgress& progress) {
    if (progress.stage != "answer") return;
    ++steps;
    gone.request_stop();
  };
  const auto answer = engine->Run(std::move(request));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kCancelled);
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(engine->load().admitted, 0);
  EXPECT_EQ(SaidBy(engine->Run(Ask(1, "car"))), expected) << "nothing half done is kept";
}

// Six clients, two pictures, two questions, some of whom leave: nobody ever gets somebody else's answer.
TEST_F(LocateEngineTest, AnswersAreNeverMixedUp) {
  const auto engine = Open();
  std::map<std::pair<int, std::string>, Said> expected;
  for (const int picture : {1, 2}) {
    for (const std::string query : {"car", "person"}) {
      expected[{picture, query}] = SaidBy(engine->Run(Ask(picture, query)));
    }
  }
  EXPECT_NE((expected[{1, "car"}]), (expected[{2, "car"}]));
  EXPECT_NE((expected[{1, "car"}]), (expected[{1, "person"}]));
  std::vector<std::jthread> clients;
  for (int client = 0; client < 6; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 4; ++i) {
        const int picture = 1 + (client + i) % 2;
        const std::string query = (client + i / 2) % 2 == 0 ? "car" : "person";
        std::stop_source gone;
        LocateRequest request = Ask(picture, query);
        request.stop = gone.get_token();
        if ((client * 5 + i) % 4 == 0) {
          request.progress = [&](const LocateProgress&) { gone.request_stop(); };
        }
        const bool leaves = request.progress != nullptr;
        const auto answer = engine->Run(std::move(request));
        if (leaves) {
          EXPECT_TRUE(!answer && answer.error().code == Code::kCancelled);
        } else {
          EXPECT_EQ(SaidBy(answer), expected.at({picture, query}));
        }
      }
    });
  }
}

}  // namespace
}  // namespace sightline
