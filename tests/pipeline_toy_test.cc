// The trained toy: its expected answers on the twelve shipped pictures, for every precision and instruction set.
// (The figures over 200 held-out pictures are tests/toy/figures.py, a long test.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "pipeline/pipeline.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

using nlohmann::json;

const std::filesystem::path kToy = std::filesystem::path(SIGHTLINE_TEST_DATA) / "../../assets/toy";

json ReadJson(const char* name) { return json::parse(std::ifstream(kToy / name)); }

std::shared_ptr<const DecodedImage> Picture(const std::string& name) {
  const auto file = ReadFile(kToy / name, 1 << 24);
  return std::make_shared<const DecodedImage>(*DecodeImage(*file));
}

// Forces an instruction set for the engines opened while it lives.
class ForcedIsa {
 public:
  explicit ForcedIsa(Isa isa) { ::setenv("SIGHTLINE_ISA", std::string(NameOf(isa)).c_str(), 1); }
  ~ForcedIsa() { ::unsetenv("SIGHTLINE_ISA"); }
};

std::unique_ptr<GazeEngine> OpenToy(Isa isa, Precision precision, Profile profile) {
  static TemporaryFolder cache;
  const ForcedIsa forced(isa);
  GazeEngineOptions options;
  options.profile = profile;
  options.precision = precision;
  options.cache_folder = cache.path();
  auto engine = GazeEngine::Open(*OpenGazeWeights({.toy = true}), options);
  EXPECT_TRUE(engine) << engine.error().message;
  return std::move(*engine);
}

GazeRequest Request(const json& sample) {
  GazeRequest request;
  request.picture = Picture(sample.at("file"));
  for (const json& person : sample.at("people")) {
    const json& b = person.at("box_px");
    request.boxes.push_back(Box{b[0], b[1], b[2], b[3]});
  }
  return request;
}

std::vector<GazePerson> Answer(GazeEngine& engine, const json& sample) {
  auto answer = engine.Run(Request(sample));
  EXPECT_TRUE(answer) << answer.error().message;
  return std::move(answer->people);
}

// The peak's cell centre lies on the thing that the person really looks at.
bool InsideRightThing(const GazePerson& person, const json& picture, const json& truth) {
  const json& thing = picture.at("things")[truth.at("thing").get<size_t>()];
  const double x = (person.column + 0.5) / kHeatmapSize * picture.at("width").get<double>();
  const double y = (person.row + 0.5) / kHeatmapSize * picture.at("height").get<double>();
  return std::hypot(x - thing.at("centre")[0].get<double>(), y - thing.at("centre")[1].get<double>()) <=
         thing.at("radius").get<double>();
}

class Toy : public testing::TestWithParam<std::tuple<Isa, Profile>> {
 protected:
  void SetUp() override {
    if (std::get<Isa>(GetParam()) > *DetectIsa())
      GTEST_SKIP() << "this processor has no " << NameOf(std::get<Isa>(GetParam()));
  }
  const json expected_ = ReadJson("expected.json");
  const json truth_ = ReadJson("truth.json");
};

TEST_P(Toy, AnswersInF32AsTheOfficialCode) {
  const auto [isa, profile] = GetParam();
  const auto engine = OpenToy(isa, Precision::kF32, profile);
  for (size_t s = 0; s < expected_.at("samples").size(); ++s) {
    const json& sample = expected_.at("samples")[s];
    const std::vector<GazePerson> people = Answer(*engine, sample);
    for (size_t i = 0; i < people.size(); ++i) {
      SCOPED_TRACE(sample.at("file").get<std::string>() + " person " + std::to_string(i));
      const json& person = sample.at("people")[i];
      const json& official = person.at(profile == Profile::kUpstream ? "U" : "P");
      EXPECT_NEAR(people[i].score, official.at("peak").get<double>(), 2e-4);
      EXPECT_NEAR(people[i].inout.value(), official.at("inout").get<double>(), 2e-4);
      if (official.at("margin").get<double>() < 1e-4) continue;
      EXPECT_EQ(people[i].row, official.at("argmax_row_col")[0].get<int>());
      EXPECT_EQ(people[i].column, official.at("argmax_row_col")[1].get<int>());
      if (person.at("true_inout") == 1) {
        const json& picture = truth_.at("pictures")[s];
        EXPECT_EQ(InsideRightThing(people[i], picture, picture.at("people")[i]),
                  official.at("inside_right_thing").get<bool>());
      }
    }
  }
}

// Our bf16 strays from our f32 no further than the official bf16 from the official f32, over the same people.
TEST_P(Toy, DriftInBf16IsWithinTheOfficialDrift) {
  const auto [isa, profile] = GetParam();
  const auto exact = OpenToy(isa, Precision::kF32, profile);
  const auto reduced = OpenToy(isa, Precision::kBF16, profile);
  double map_max = 0, map_sum = 0, inout_max = 0, lost_max = 0;
  int moved = 0, count = 0;
  for (const json& sample : expected_.at("samples")) {
    const std::vector<GazePerson> a = Answer(*exact, sample), b = Answer(*reduced, sample);
    for (size_t i = 0; i < a.size(); ++i, ++count) {
      for (size_t c = 0; c < kHeatmapCells; ++c) {
        const double difference = std::abs(double{a[i].heatmap[c]} - b[i].heatmap[c]);
        map_max = std::max(map_max, difference);
        map_sum += difference;
      }
      inout_max = std::max(inout_max, std::abs(double{*a[i].inout} - *b[i].inout));
      lost_max = std::max(
          lost_max, double{a[i].score} - a[i].heatmap[static_cast<size_t>(b[i].row * kHeatmapSize + b[i].column)]);
      moved += std::max(std::abs(a[i].row - b[i].row), std::abs(a[i].column - b[i].column)) > 2;
    }
  }
  const json& drift = expected_.at("samples_drift_bf16").at(profile == Profile::kUpstream ? "U" : "P");
  EXPECT_LE(map_max, drift.at("heatmap_max_diff").get<double>());
  EXPECT_LE(map_sum / count / kHeatmapCells, drift.at("heatmap_mean_diff").get<double>());
  EXPECT_LE(inout_max, drift.at("inout_max_diff").get<double>());
  EXPECT_LE(lost_max, drift.at("peak_lost_max").get<double>());
  EXPECT_EQ(moved, drift.at("argmax_moved_more_than_2_cells").get<int>());
}

std::string PathName(const testing::TestParamInfo<std::tuple<Isa, Profile>>& path) {
  return std::string(NameOf(std::get<0>(path.param))) + "_" + std::string(NameOf(std::get<1>(path.param)));
}

constexpr auto kProfiles = {Profile::kUpstream, Profile::kPort};
INSTANTIATE_TEST_SUITE_P(VectorPaths, Toy,
                         testing::Combine(testing::Values(Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx),
                                          testing::ValuesIn(kProfiles)),
                         PathName);
INSTANTIATE_TEST_SUITE_P(Long_PlainPath, Toy,
                         testing::Combine(testing::Values(Isa::kGeneric), testing::ValuesIn(kProfiles)), PathName);

}  // namespace
}  // namespace sightline
