// The engine as the server uses it: queue, cancellation, draining, scene cache, heads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <future>
#include <thread>

#include "pipeline/pipeline.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

using testing::HasSubstr;

const std::filesystem::path kAssets = std::filesystem::path(SIGHTLINE_TEST_DATA) / "../../assets";

std::shared_ptr<const DecodedImage> Picture(const std::filesystem::path& path) {
  const auto file = ReadFile(path, 1 << 24);
  EXPECT_TRUE(file) << file.error().message;
  return std::make_shared<const DecodedImage>(*DecodeImage(*file));
}

GazeRequest ToyRequest(int sample, std::vector<std::optional<Box>> boxes) {
  GazeRequest request;
  request.picture = Picture(kAssets / "toy" / ("sample_0" + std::to_string(sample) + ".png"));
  request.boxes = std::move(boxes);
  return request;
}

const Box kHead{241.95, 188.91, 284.88, 235.17};
const Box kOther{95.02, 203.27, 147.88, 259.9};

class Engine : public testing::Test {
 protected:
  static std::unique_ptr<GazeEngine> Open(GazeEngineOptions options = {}) {
    static TemporaryFolder cache;
    options.cache_folder = cache.path();
    auto engine = GazeEngine::Open(*OpenGazeWeights({.toy = true}), options);
    EXPECT_TRUE(engine) << engine.error().message;
    return std::move(*engine);
  }
  static std::future<Result<GazeAnswer>> Start(GazeEngine& engine, GazeRequest request) {
    auto promise = std::make_shared<std::promise<Result<GazeAnswer>>>();
    auto ticket = engine.Admit();
    if (!ticket) {
      promise->set_value(tl::make_unexpected(ticket.error()));
    } else {
      engine.Run(std::move(*ticket), std::move(request),
                 [promise](Result<GazeAnswer> a) { promise->set_value(std::move(a)); });
    }
    return promise->get_future();
  }
};

bool SameMaps(const GazeAnswer& a, const GazeAnswer& b) {
  if (a.people.size() != b.people.size()) return false;
  for (size_t i = 0; i < a.people.size(); ++i) {
    if (a.people[i].heatmap != b.people[i].heatmap || a.people[i].inout != b.people[i].inout) return false;
  }
  return true;
}

TEST_F(Engine, MapsThePeakToPixels) {
  const auto engine = Open();
  const auto answer = engine->Run(ToyRequest(0, {kHead}));
  ASSERT_TRUE(answer) << answer.error().message;
  const GazePerson& person = answer->people.at(0);
  EXPECT_EQ(person.target.x, person.column / 64.0 * answer->width);
  EXPECT_EQ(person.target.y, person.row / 64.0 * answer->height);
  EXPECT_EQ(person.score, person.heatmap[static_cast<size_t>(person.row * 64 + person.column)]);
  EXPECT_EQ(answer->heads_source, "request");
}

TEST_F(Engine, ManyHeadsAreTheSameAsOneAtATime) {
  const auto engine = Open();
  std::vector<std::optional<Box>> boxes;
  for (int i = 0; i < 19; ++i) boxes.push_back(Box{10.0 + 20 * i, 100.0 + 5 * i, 60.0 + 20 * i, 160.0 + 5 * i});
  const auto all = engine->Run(ToyRequest(0, boxes));
  ASSERT_TRUE(all) << all.error().message;
  for (size_t i = 0; i < boxes.size(); i += 6) {
    const auto one = engine->Run(ToyRequest(0, {boxes[i]}));
    EXPECT_EQ(one->people[0].heatmap, all->people[i].heatmap) << "head " << i;
  }
}

TEST_F(Engine, TheSameBitsForAnyNumberOfThreads) {
  GazeEngineOptions options;
  options.threads = 1;
  const auto one = Open(options)->Run(ToyRequest(0, {kHead, kOther}));
  options.threads = 3;
  const auto three = Open(options)->Run(ToyRequest(0, {kHead, kOther}));
  EXPECT_TRUE(SameMaps(*one, *three));
}

TEST_F(Engine, ASecondQuestionAboutAPictureUsesTheSceneAndAnswersTheSame) {
  const auto engine = Open();
  GazeRequest request = ToyRequest(0, {kHead});
  request.picture_digest = "sample_00";
  const auto first = engine->Run(request);
  EXPECT_FALSE(first->scene_from_cache);
  request.boxes = {kHead, kOther};
  const auto second = engine->Run(request);
  EXPECT_TRUE(second->scene_from_cache);
  EXPECT_EQ(second->encode_ms, 0);
  EXPECT_EQ(first->people[0].heatmap, second->people[0].heatmap);
  EXPECT_EQ(engine->load().scene_cache_hits, 1u);
}

TEST_F(Engine, BoxCountIsChecked) {
  const auto engine = Open();
  GazeRequest request = ToyRequest(0, {});
  EXPECT_EQ(engine->Run(request).error().code, Code::kMissingField);
  request.boxes.assign(11, kHead);
  request.max_boxes = 10;
  EXPECT_EQ(engine->Run(request).error().code, Code::kTooManyBoxes);
  request.max_boxes = 0;
  EXPECT_TRUE(engine->Run(request));
}

TEST_F(Engine, NobodyMarkedOnlyInReferenceMode) {
  const auto engine = Open();
  GazeRequest request = ToyRequest(0, {std::nullopt});
  EXPECT_EQ(engine->Run(request).error().code, Code::kInvalidBox);
  request.reference = true;
  const auto answer = engine->Run(request);
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->people[0].marked);
  EXPECT_EQ(answer->people[0].cells, 0);
}

TEST_F(Engine, NothingFoundIsAnAnswerWithAReason) {
  const auto engine = Open();
  GazeRequest request;
  request.picture = Picture(std::filesystem::path(SIGHTLINE_TEST_DATA) / "images/coffee.png");
  request.detect_heads = true;
  const auto answer = engine->Run(request);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(answer->people.empty());
  EXPECT_THAT(answer->empty_reason, HasSubstr("no head was found above the threshold 0.5"));
  EXPECT_EQ(engine->load().admitted, 0);
}

TEST_F(Engine, GivenBoxesWinOverDetectedOnes) {
  const auto engine = Open();
  GazeRequest request;
  request.picture = Picture(std::filesystem::path(SIGHTLINE_TEST_DATA) / "images/astronaut.png");
  request.detect_heads = true;
  const auto detected = engine->Run(request);
  ASSERT_EQ(detected->people.size(), 1u);
  EXPECT_TRUE(detected->people[0].head_score);
  request.boxes = {Box{152, 14, 302, 192}, Box{400, 300, 500, 400}};
  const auto mixed = engine->Run(request);
  EXPECT_EQ(mixed->people.size(), 2u) << "the detected head is the first given one";
  EXPECT_EQ(mixed->heads_source, "request+detector");
}

TEST_F(Engine, RefusesBeyondTheQueueAndRecovers) {
  GazeEngineOptions options;
  options.max_queue = 2;
  const auto engine = Open(options);
  auto first = engine->Admit();
  auto second = engine->Admit();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(engine->Admit().error().code, Code::kBusy);
  *first = {};
  EXPECT_TRUE(engine->Admit());
}

// Whoever hears of an end may ask again, in a house of one place too.
TEST_F(Engine, PlaceIsFreeWhenTheAnswerIsTold) {
  GazeEngineOptions options;
  options.max_queue = 1;
  const auto engine = Open(options);
  GazeRequest nobody = ToyRequest(0, {});
  nobody.picture = Picture(std::filesystem::path(SIGHTLINE_TEST_DATA) / "images/coffee.png");
  nobody.detect_heads = true;
  for (const GazeRequest& request : {ToyRequest(0, {}), nobody, ToyRequest(0, {kHead})}) {
    auto ticket = engine->Admit();
    ASSERT_TRUE(ticket);
    std::promise<bool> free;
    engine->Run(std::move(*ticket), request,
                [&](const Result<GazeAnswer>&) { free.set_value(engine->Admit().has_value()); });
    EXPECT_TRUE(free.get_future().get());
  }
}

TEST_F(Engine, CancelledRequestsEndAndFreeTheirPlace) {
  const auto engine = Open();
  std::stop_source gone;
  std::vector<std::future<Result<GazeAnswer>>> answers;
  for (int i = 0; i < 5; ++i) {
    GazeRequest request = ToyRequest(0, {kHead});
    request.stop = gone.get_token();
    answers.push_back(Start(*engine, std::move(request)));
  }
  gone.request_stop();
  for (auto& answer : answers) {
    const auto result = answer.get();
    EXPECT_TRUE(result || result.error().code == Code::kCancelled);
  }
  EXPECT_EQ(engine->load().admitted, 0);
  EXPECT_TRUE(engine->Run(ToyRequest(0, {kHead})));
}

// A client that leaves must not keep its place until somebody else's long request is done.
TEST_F(Engine, AWaitingRequestIsCancelledAtOnce) {
  const auto engine = Open();
  auto running = Start(*engine, ToyRequest(0, std::vector<std::optional<Box>>(64, kHead)));
  while (!engine->load().running) std::this_thread::yield();
  std::stop_source gone;
  GazeRequest request = ToyRequest(0, {kHead});
  request.stop = gone.get_token();
  const std::weak_ptr<const DecodedImage> pixels = request.picture;
  auto waiting = Start(*engine, std::move(request));
  EXPECT_EQ(engine->load().queued, 1);
  EXPECT_TRUE(pixels.expired()) << "a waiting request keeps no pixels";
  gone.request_stop();
  ASSERT_EQ(waiting.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(waiting.get().error().code, Code::kCancelled);
  EXPECT_EQ(engine->load().queued, 0);
  EXPECT_EQ(engine->load().admitted, 1);
  EXPECT_EQ(running.wait_for(std::chrono::seconds(0)), std::future_status::timeout) << "the other request goes on";
  EXPECT_TRUE(running.get());
}

TEST_F(Engine, DrainFinishesTheRunningAndRefusesTheQueued) {
  const auto engine = Open();
  std::vector<std::future<Result<GazeAnswer>>> answers;
  for (int i = 0; i < 4; ++i) answers.push_back(Start(*engine, ToyRequest(0, {kHead})));
  while (!engine->load().running) std::this_thread::yield();
  engine->Drain();
  int answered = 0, refused = 0;
  for (auto& answer : answers) {
    const auto result = answer.get();
    answered += result.has_value();
    refused += !result && result.error().code == Code::kDraining;
  }
  EXPECT_GE(answered, 1);
  EXPECT_EQ(answered + refused, 4);
  EXPECT_EQ(engine->Admit().error().code, Code::kDraining);
}

// Eight threads, two pictures, aborts at random: nobody ever gets somebody else's answer.
TEST_F(Engine, AnswersAreNeverMixedUp) {
  const auto engine = Open();
  const auto expected_a = engine->Run(ToyRequest(0, {kHead}));
  const auto expected_b = engine->Run(ToyRequest(1, {kHead}));
  std::vector<std::jthread> clients;
  for (int client = 0; client < 8; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 3; ++i) {
        std::stop_source gone;
        GazeRequest request = ToyRequest((client + i) % 2, {kHead});
        request.stop = gone.get_token();
        if ((client * 7 + i) % 5 == 0) gone.request_stop();
        const auto answer = engine->Run(request);
        if (answer) {
          EXPECT_TRUE(SameMaps(*answer, (client + i) % 2 == 0 ? *expected_a : *expected_b));
        } else {
          EXPECT_EQ(answer.error().code, Code::kCancelled);
        }
      }
    });
  }
}

TEST(Weights, FoldersAreReadAndFaultsNamed) {
  TemporaryFolder folder;
  EXPECT_THAT(OpenGazeWeights({.folder = folder.path()}).error().message, HasSubstr("no dinov2* file"));
  EXPECT_EQ(OpenGazeWeights({.folder = folder.path() / "none"}).error().code, Code::kNotFound);
  EXPECT_EQ(OpenGazeWeights({.toy = true, .synthetic = true}).error().code, Code::kUsage);
  const auto files = WriteSyntheticGazeLle({"tiny", true, 5, {}, folder.path()});
  ASSERT_TRUE(files) << files.error().message;
  const auto weights = OpenGazeWeights({.folder = folder.path()});
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_TRUE(weights->synthetic);
  EXPECT_FALSE(weights->toy);
  EXPECT_EQ(weights->files.decoder.note(), kSyntheticNote);
  EXPECT_FALSE(OpenGazeWeights({.toy = true})->synthetic);
  std::ofstream(folder.path() / "dinov2_second.pth") << "x";
  EXPECT_THAT(OpenGazeWeights({.folder = folder.path()}).error().message, HasSubstr("expected one dinov2* file"));
}

TEST(Weights, AToyGivenByPathIsAToy) {
  const auto by_folder = OpenGazeWeights({.folder = kAssets / "toy"});
  ASSERT_TRUE(by_folder) << by_folder.error().message;
  EXPECT_TRUE(by_folder->toy);
  EXPECT_FALSE(by_folder->synthetic);
  TemporaryFolder folder;
  for (const auto& [from, to] : {std::pair{by_folder->backbone, "b.pth"}, std::pair{by_folder->decoder, "d.pt"}}) {
    std::filesystem::copy_file(kAssets / "toy" / from, folder.path() / to);
  }
  EXPECT_TRUE(OpenGazeWeights({.backbone = folder.path() / "b.pth", .decoder = folder.path() / "d.pt"})->toy);
}

// Files of the official generator carry no note: the numbers themselves tell.
TEST(Weights, SyntheticNumbersAreKnownWithoutANote) {
  TemporaryFolder folder;
  const std::vector<TensorSpec> tensors{{"cls_token", {1, 1, 768}}};
  const auto write = [&](uint64_t seed, float amplitude) {
    const auto fill = [&](size_t, std::span<float> values) -> Status {
      SyntheticTensor("cls_token", seed, 0.0f, amplitude, values);
      return {};
    };
    EXPECT_TRUE(WriteTorchCheckpoint(folder.path() / "x.pth", tensors, fill));
    const auto file = Checkpoint::Open(folder.path() / "x.pth");
    return IsSynthetic({*file, *file});
  };
  for (uint64_t seed = 0; seed < 50; ++seed) EXPECT_TRUE(write(seed, 0.8f)) << "seed " << seed;
  EXPECT_FALSE(write(1, 0.7654321f)) << "other numbers of the same size";
}

TEST(Weights, ADamagedDownloadIsNotPacked) {
  TemporaryFolder folder, cache;
  const auto files = WriteSyntheticGazeLle({"tiny", true, 5, {}, folder.path()});
  std::fstream file(files->backbone, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(400'000);
  file.put('\x55');
  file.close();
  GazeEngineOptions options;
  options.cache_folder = cache.path();
  const auto engine = GazeEngine::Open(*OpenGazeWeights({.folder = folder.path()}), options);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, Code::kCorruptWeights);
  EXPECT_THAT(engine.error().message, HasSubstr("CRC-32"));
}

TEST(Weights, TheHuggingFaceCacheIsFoundAndItsAbsenceExplained) {
  TemporaryFolder hub;
  ::setenv("HF_HUB_CACHE", hub.path().c_str(), 1);
  const auto none = OpenGazeWeights({});
  EXPECT_EQ(none.error().code, Code::kNotFound);
  EXPECT_THAT(none.error().message, testing::AllOf(HasSubstr("--weights DIR"), HasSubstr("sightline pull gaze-lle")));
  const auto repo = hub.path() / "models--changh95--gaze-lle-weights";
  std::filesystem::create_directories(repo / "refs");
  const std::string commit = "f83e53f0f17dd2175f31ceaf9fa650044147ada1";
  std::ofstream(repo / "refs/main") << commit;
  ASSERT_TRUE(WriteSyntheticGazeLle({"tiny", true, 1, {}, repo / "snapshots" / commit}));
  const auto found = OpenGazeWeights({});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->revision, commit);
  EXPECT_EQ(found->repo, "changh95/gaze-lle-weights");
  const auto named = OpenGazeWeights({.folder = repo / "snapshots" / commit});
  ASSERT_TRUE(named) << named.error().message;
  EXPECT_EQ(named->revision, commit);
  EXPECT_EQ(named->repo, "changh95/gaze-lle-weights");
  ::unsetenv("HF_HUB_CACHE");
}

}  // namespace
}  // namespace sightline
