// The official Python code's results on synthetic weights of the tiny size, stage by stage (tests/data/locate). A
// failure names the stage that is off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "models/models.h"
#include "tests/support/locate_models.h"
#include "tests/support/npy.h"

namespace sightline {
namespace {

using nlohmann::json;

const std::filesystem::path kGoldens = std::filesystem::path(SIGHTLINE_TEST_DATA) / "locate";

// The limits that the goldens' README suggests for a float32 engine.
double Limit(const std::string& stage) {
  if (stage == "v.pos_emb" || stage.find("rope") != std::string::npos) return 2e-5;
  if (stage.starts_with("v.")) return 1e-4;
  if (stage == "l.norm") return 1e-3;
  return 4e-4;
}

std::string FileOf(std::string stage) {
  std::ranges::replace(stage, '.', '_');
  return stage + ".npy";
}

// The official tables have one row a position; the window begins with the position of the last token once more.
std::vector<float> RowsOfWindow(const std::vector<float>& by_position) {
  constexpr size_t kPairs = 64;
  const size_t tokens = by_position.size() / kPairs - kWindow;
  std::vector<float> rows(by_position.begin(), by_position.begin() + static_cast<ptrdiff_t>(tokens * kPairs));
  rows.insert(rows.end(), by_position.begin() + static_cast<ptrdiff_t>((tokens - 1) * kPairs),
              by_position.end() - static_cast<ptrdiff_t>(kPairs));
  return rows;
}

// Collects every stage of a forward pass under its official name. Vision stages of several pictures follow each other.
class Stages {
 public:
  StageTap tap() {
    return [this](std::string_view stage, std::span<const float> values, const Shape&) {
      std::vector<float>& all = stages_[std::string(stage)];
      all.insert(all.end(), values.begin(), values.end());
    };
  }

  // Queries, keys and values before rotation, which are one projection here.
  void SplitProjection(const LocateConfig::Language& language) {
    const std::vector<float>& qkv = stages_.at("l.0.qkv");
    const auto q = static_cast<size_t>(language.heads * language.head_size);
    const auto kv = static_cast<size_t>(language.kv_heads * language.head_size);
    for (size_t row = 0; row < qkv.size(); row += q + 2 * kv) {
      const auto add = [&](const char* name, size_t first, size_t count) {
        std::vector<float>& all = stages_[name];
        all.insert(all.end(), qkv.begin() + static_cast<ptrdiff_t>(row + first),
                   qkv.begin() + static_cast<ptrdiff_t>(row + first + count));
      };
      add("l.0.q", 0, q);
      add("l.0.k", q, kv);
      add("l.0.v", q + kv, kv);
    }
  }

  // Every stage that the golden folder has and that is one here too.
  int Compare(const std::filesystem::path& folder) const {
    int compared = 0;
    for (const auto& [stage, values] : stages_) {
      if (!std::filesystem::exists(folder / FileOf(stage))) continue;
      ++compared;
      std::vector<float> expected = ReadNpy(folder / FileOf(stage));
      if (stage.starts_with("l.rope")) expected = RowsOfWindow(expected);
      EXPECT_EQ(values.size(), expected.size()) << "stage " << stage;
      if (values.size() != expected.size()) continue;
      double worst = 0;
      for (size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::abs(double{values[i]} - expected[i]));
      EXPECT_LE(worst, Limit(stage)) << "stage " << stage;
    }
    return compared;
  }

 private:
  std::map<std::string, std::vector<float>> stages_;
};

// Top 50 and every 997th logit of each row.
void CompareLogits(const json& golden, std::span<const float> logits, size_t rows) {
  const size_t vocabulary = logits.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    const std::span<const float> values = logits.subspan(row * vocabulary, vocabulary);
    const json& ids = golden.at("top_ids")[row];
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_NEAR(values[ids[i].get<size_t>()], golden.at("top_values")[row][i].get<float>(), 2e-3) << row;
    }
    const json& spread = golden.at("every_997")[row];
    for (size_t i = 0; i < spread.size(); ++i) EXPECT_NEAR(values[i * 997], spread[i].get<float>(), 2e-3) << row;
  }
}

// [patches, 588] row by row to the order of the model.
std::vector<float> InMergeOrder(std::span<const float> patches, PatchGrid grid) {
  std::vector<float> ordered;
  for (const int32_t patch : MergeOrder(grid)) {
    const auto row = patches.subspan(static_cast<size_t>(patch) * kPatchValues, kPatchValues);
    ordered.insert(ordered.end(), row.begin(), row.end());
  }
  return ordered;
}

class LocateGolden : public testing::TestWithParam<std::tuple<const char*, Isa>> {};

TEST_P(LocateGolden, EveryStageIsAsInTheOfficialCode) {
  const auto [name, isa] = GetParam();
  const auto folder = kGoldens / name;
  const json info = json::parse(std::ifstream(folder / "info.json"));
  const auto backend = MakeCpuBackend({.isa = isa});
  const auto model = LoadSynthetic(*backend, "tiny", info.at("seed"), {Precision::kF32, Precision::kF32});

  Stages stages;
  const StageTap tap = stages.tap();
  const std::vector<float> pixels = ReadNpy(folder / "pixel_values.npy");
  auto images = std::make_shared<std::vector<float>>();
  size_t first = 0;
  for (const json& sides : info.at("grid_hw")) {
    const PatchGrid grid{sides[0], sides[1]};
    const auto count = static_cast<size_t>(grid.patches()) * kPatchValues;
    const auto rows = model->Encode(InMergeOrder(std::span(pixels).subspan(first, count), grid), grid, {}, &tap);
    ASSERT_TRUE(rows) << rows.error().message;
    images->insert(images->end(), rows->begin(), rows->end());
    first += count;
  }
  const std::vector<TokenId> prompt = info.at("input_ids");
  const auto session = model->NewSession(static_cast<int64_t>(prompt.size()));
  session->SetImages(images);
  session->Tap(&tap);
  std::vector<float> logits;
  ASSERT_TRUE(session->Forward({.ids = prompt, .last = prompt.back(), .window = true, .logit_rows = 1}, {}, &logits));
  stages.SplitProjection(model->config().language);
  EXPECT_GE(stages.Compare(folder), 30);

  const auto vocabulary = static_cast<size_t>(model->config().language.vocabulary);
  CompareLogits(info.at("prefill_logits"), std::span(logits).first(vocabulary), 1);
  CompareLogits(info.at("window_logits"), std::span(logits).subspan(vocabulary), kWindow);
}

INSTANTIATE_TEST_SUITE_P(Tiny, LocateGolden,
                         testing::Combine(testing::Values("tiny_one_image", "tiny_two_images"),
                                          testing::ValuesIn(AvailableIsas())),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" +
                                  std::string(NameOf(std::get<1>(test.param)));
                         });

// Positions and rotations depend on the grid alone.
TEST(LocateGrids, TablesAreAsInTheOfficialCode) {
  const json golden = json::parse(std::ifstream(kGoldens / "tiny_grids.json"));
  const auto backend = MakeCpuBackend({.isa = *DetectIsa()});
  const auto model = LoadSynthetic(*backend, "tiny", golden.at("seed"), {Precision::kF32, Precision::kF32});
  for (const json& row : golden.at("rows")) {
    const PatchGrid grid{row.at("grid")[0], row.at("grid")[1]};
    SCOPED_TRACE(testing::Message() << grid.height << "x" << grid.width);
    if (grid.patches() > 4096) continue;  // a whole forward pass a grid
    std::map<std::string, std::vector<float>> tables;
    const StageTap tap = [&](std::string_view stage, std::span<const float> values, const Shape&) {
      if (stage == "v.pos_emb" || stage.starts_with("v.rope")) {
        tables[std::string(stage)].assign(values.begin(), values.end());
      }
    };
    const std::vector<float> patches(static_cast<size_t>(grid.patches()) * kPatchValues);
    ASSERT_TRUE(model->Encode(patches, grid, {}, &tap));
    const auto compare = [&](const std::string& stage, const char* key, size_t step) {
      const json& expected = row.at(key);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(tables[stage][i * step], expected[i].get<float>(), 2e-5) << stage << " " << i;
      }
    };
    compare("v.pos_emb", "every_997", 997);
    compare("v.rope_cos", "rope_cos_every_97", 97);
    compare("v.rope_sin", "rope_sin_every_97", 97);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// The cache of keys and values

class LocateSession : public testing::Test {
 protected:
  std::vector<TokenId> prompt_{151644, 8948, 198, 2610, 525, 264, 10950, 17847, 624, 151645, 198, 151644, 872, 198};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.isa = *DetectIsa()});
};

TEST_F(LocateSession, TokensOneByOneGiveTheBitsOfAllAtOnce) {
  for (const Precision language :
       {Precision::kF32, Precision::kBF16, Precision::kInt8, Precision::kInt8Weights, Precision::kInt4}) {
    SCOPED_TRACE(NameOf(language));
    const auto model = LoadSynthetic(*backend_, "tiny", 1, {Precision::kF32, language});
    const auto all = model->NewSession(64), single = model->NewSession(40);
    std::vector<float> expected, logits;
    const auto count = static_cast<int64_t>(prompt_.size());
    ASSERT_TRUE(all->Forward({.ids = prompt_, .logit_rows = count}, {}, &expected));
    const size_t vocabulary = expected.size() / prompt_.size();
    for (size_t i = 0; i < prompt_.size(); ++i) {
      ASSERT_TRUE(single->Forward({.ids = {&prompt_[i], 1}}, {}, &logits));
      ASSERT_EQ(logits.size(), vocabulary);
      EXPECT_TRUE(std::ranges::equal(logits, std::span(expected).subspan(i * vocabulary, vocabulary))) << "token " << i;
    }
  }
}

TEST_F(LocateSession, TheWindowLeavesNoTrace) {
  const auto model = LoadSynthetic(*backend_, "tiny", 1, {Precision::kF32, Precision::kInt8});
  const auto with = model->NewSession(64), without = model->NewSession(64);
  std::vector<float> a, b;
  ASSERT_TRUE(with->Forward({.ids = prompt_, .last = prompt_.back(), .window = true}, {}, &a));
  ASSERT_TRUE(without->Forward({.ids = prompt_}, {}, &b));
  EXPECT_TRUE(std::ranges::equal(std::span(a).first(b.size()), b));
  const std::vector<TokenId> next{9152, 349};
  ASSERT_TRUE(with->Forward({.ids = next, .logit_rows = 2}, {}, &a));
  ASSERT_TRUE(without->Forward({.ids = next, .logit_rows = 2}, {}, &b));
  EXPECT_EQ(a, b);
}

TEST_F(LocateSession, AWindowOfItsOwnIsTheWindowBehindThePrompt) {
  const auto model = LoadSynthetic(*backend_, "tiny", 1, {Precision::kF32, Precision::kF32});
  const auto together = model->NewSession(64), apart = model->NewSession(64);
  std::vector<float> a, b;
  ASSERT_TRUE(together->Forward({.ids = prompt_, .last = prompt_.back(), .window = true, .logit_rows = 0}, {}, &a));
  ASSERT_TRUE(apart->Forward({.ids = prompt_}, {}, &b));
  ASSERT_TRUE(apart->Forward({.last = prompt_.back(), .window = true, .logit_rows = 0}, {}, &b));
  EXPECT_EQ(a, b);
}

TEST_F(LocateSession, ACopiedPrefixAndACroppedSequenceGoOnAsTheOriginal) {
  const auto model = LoadSynthetic(*backend_, "tiny", 1, {Precision::kF32, Precision::kInt8});
  const auto original = model->NewSession(64), copy = model->NewSession(20);
  std::vector<float> a, b;
  ASSERT_TRUE(original->Forward({.ids = prompt_}, {}, &a));
  copy->CopyPrefix(*original, 10);
  EXPECT_EQ(copy->length(), 10);
  ASSERT_TRUE(copy->Forward({.ids = std::span(prompt_).subspan(10)}, {}, &b));
  EXPECT_EQ(a, b);
  original->Crop(10);
  ASSERT_TRUE(original->Forward({.ids = std::span(prompt_).subspan(10)}, {}, &b));
  EXPECT_EQ(a, b);
}

TEST_F(LocateSession, AStopRequestEndsAForwardPass) {
  const auto model = LoadSynthetic(*backend_, "tiny", 1, {Precision::kF32, Precision::kF32});
  const auto session = model->NewSession(64);
  std::stop_source stop;
  stop.request_stop();
  std::vector<float> logits;
  const Status status = session->Forward({.ids = prompt_}, stop.get_token(), &logits);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCancelled);
  EXPECT_EQ(session->length(), 0);
}

}  // namespace
}  // namespace sightline
