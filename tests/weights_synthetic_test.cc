// The synthesis rule against tests/data/synth_vectors.json, and the rules file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"
#include "weights/weights.h"

namespace sightline {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const json& Vectors() {
  static const json vectors =
      json::parse(std::ifstream(std::filesystem::path(SIGHTLINE_TEST_DATA) / "synth_vectors.json"));
  return vectors;
}

std::string Hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016lx", value);
  return text;
}
float FromHex(const json& text) { return std::strtof(text.get<std::string>().c_str(), nullptr); }

TEST(SyntheticTensor, MatchesTheVectors) {
  ASSERT_EQ(Vectors()["tensors"].size(), 7u);
  for (const json& row : Vectors()["tensors"]) {
    const json& amplitude = row["amplitude"];
    const float scale = amplitude.is_array()
                            ? SyntheticAmplitude(amplitude[0].get<double>(), amplitude[1].get<double>())
                            : static_cast<float>(amplitude.get<double>());
    EXPECT_EQ(scale, FromHex(row["amplitude_f32"]));
    std::vector<float> values(static_cast<size_t>(ElementCount(row["shape"].get<Shape>())));
    const uint64_t seed = std::stoull(row["seed"].get<std::string>());
    SyntheticTensor(row["name"].get<std::string>(), seed, static_cast<float>(row["centre"].get<double>()), scale,
                    values);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(values[i], FromHex(row["first4"][i]));
    EXPECT_EQ(values.back(), FromHex(row["last"]));
    EXPECT_EQ(Hex(Fnv1a64(AsBytes(values))), row["fnv1a64_f32_le"]);

    std::vector<uint16_t> rounded;
    for (const float value : values) rounded.push_back(BF16FromFloat(value));
    EXPECT_EQ(Hex(rounded[0]).substr(12), row["first4_bf16"][0]);
    EXPECT_EQ(Hex(Fnv1a64(AsBytes(rounded))), row["fnv1a64_bf16_le"]);
  }
}

TEST(SyntheticPiece, IsPartOfTheTensor) {
  std::vector<float> whole(5000), piece(700);
  SyntheticTensor("x", 3, 0.5f, 0.25f, whole);
  for (const size_t first : {0u, 1u, 4300u}) {
    SyntheticPiece("x", 3, first, 0.5f, 0.25f, piece);
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + static_cast<ptrdiff_t>(first))) << first;
  }
}

TEST(SyntheticRgb, MatchesTheVectors) {
  ASSERT_EQ(Vectors()["images"].size(), 3u);
  for (const json& row : Vectors()["images"]) {
    const auto pixels = SyntheticRgb(row["seed"].get<uint64_t>(), row["w"].get<int>(), row["h"].get<int>());
    EXPECT_EQ(Hex(Fnv1a64(AsBytes(pixels))), row["fnv1a64"]);
    EXPECT_EQ(std::vector<int>(pixels.begin(), pixels.begin() + 3), row["first_pixel"].get<std::vector<int>>());
    EXPECT_EQ(std::vector<int>(pixels.end() - 3, pixels.end()), row["last_pixel"].get<std::vector<int>>());
  }
}

constexpr std::string_view kRules = R"({
  "sizes": {"small": {"embed_dim": 8, "depth": 1, "heads": 2}, "big": {"embed_dim": 16, "depth": 1, "heads": 2}},
  "backbone": [{"name": "a*b*c", "centre": 1, "amplitude": 0.5}, {"name": "first", "centre": 0, "amplitude": {"gain": 2, "fan": "first"}},
               {"name": "*", "centre": 0, "amplitude": {"gain": 2, "fan": "rest"}}],
  "decoder": [{"name": "*", "centre": 0, "amplitude": 1}],
  "calibration": {"small/7": {"x": {"centre": 9, "amplitude": 0}}}})";

std::vector<float> Fill(std::string_view part, const TensorSpec& tensor, std::string_view size, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(ElementCount(tensor.shape)));
  const Status status = SynthesisRules::Parse(kRules, "r")->Fill(part, tensor, size, seed, values);
  EXPECT_TRUE(status);
  return values;
}
std::vector<float> Direct(const TensorSpec& tensor, uint64_t seed, float centre, float amplitude) {
  std::vector<float> values(static_cast<size_t>(ElementCount(tensor.shape)));
  SyntheticTensor(tensor.name, seed, centre, amplitude, values);
  return values;
}

TEST(SynthesisRules, TakesTheFirstRowWhosePatternMatchesTheWholeName) {
  for (const std::string name : {"abc", "a--b--c", "abcbc", "aabbcc"}) {
    EXPECT_EQ(Fill("backbone", {name, {4}}, "small", 1), Direct({name, {4}}, 1, 1, 0.5)) << name;
  }
  for (const std::string name : {"ab", "xabc", "abcx", "ac", "cba"}) {
    EXPECT_EQ(Fill("backbone", {name, {4}}, "small", 1), Direct({name, {4}}, 1, 0, SyntheticAmplitude(2, 1))) << name;
  }
}

TEST(SynthesisRules, ScalesByTheFanItNames) {
  const TensorSpec first{"first", {5, 7, 3}}, rest{"rest", {5, 7, 3}};
  EXPECT_EQ(Fill("backbone", first, "small", 1), Direct(first, 1, 0, SyntheticAmplitude(2, 5)));
  EXPECT_EQ(Fill("backbone", rest, "small", 1), Direct(rest, 1, 0, SyntheticAmplitude(2, 21)));
}

TEST(SynthesisRules, CalibrationWinsForItsSizeSeedAndTheDecoder) {
  const TensorSpec x{"x", {3}};
  EXPECT_EQ(Fill("decoder", x, "small", 7), std::vector<float>(3, 9.0f));
  EXPECT_EQ(Fill("decoder", x, "small", 8), Direct(x, 8, 0, 1));
  EXPECT_EQ(Fill("decoder", x, "big", 7), Direct(x, 7, 0, 1));
  EXPECT_EQ(Fill("backbone", x, "small", 7), Direct(x, 7, 0, SyntheticAmplitude(2, 1)));
}

TEST(SynthesisRules, UnknownSizesListTheKnownOnes) {
  const auto rules = SynthesisRules::Default();
  ASSERT_TRUE(rules) << rules.error().message;
  EXPECT_EQ(rules->FindSize("vitl14")->depth, 24);
  const auto missing = rules->FindSize("vits14");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kInvalidRequest);
  EXPECT_EQ(missing.error().message, "size vits14 is unknown, expected one of: tiny, vitb14, vitl14");
}

TEST(SynthesisRules, TensorsWithoutARowAreAnError) {
  float value = 0;
  const Status status = SynthesisRules::Default()->Fill("backbone", {"unheard_of", {1}}, "tiny", 1, {&value, 1});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "synthesis rules built in: no row of backbone matches unheard_of");
  EXPECT_FALSE(SynthesisRules::Default()->Fill("neck", {"pos_embed", {1}}, "tiny", 1, {&value, 1}));
  EXPECT_FALSE(SynthesisRules::Default()->Fill("decoder", {"pos_embed", {1}}, "tiny", 1, {&value, 1}));
}

std::string ErrorOf(std::string_view text) {
  const auto rules = SynthesisRules::Parse(text, "r.json");
  if (rules) return "no error";
  EXPECT_EQ(rules.error().code, Code::kInvalidRequest);
  return rules.error().message;
}

TEST(SynthesisRules, BadFilesGiveTheFaultAndThePlace) {
  const auto with_size = [](const std::string& size) {
    return R"({"sizes":{"s":)" + size + R"(},"backbone":[],"decoder":[]})";
  };
  const auto with_row = [](const std::string& row) {
    return R"({"sizes":{},"backbone":[)" + row + R"(],"decoder":[]})";
  };
  EXPECT_EQ(ErrorOf(with_size(R"({"embed_dim":8,"depth":1,"heads":2})")), "no error");
  EXPECT_THAT(ErrorOf(""), HasSubstr("synthesis rules r.json: not a JSON object"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("sizes is missing"));
  EXPECT_THAT(ErrorOf(R"({"sizes":{}})"), HasSubstr("backbone is missing"));
  EXPECT_THAT(ErrorOf(with_size("{}")), HasSubstr("size s has no embed_dim"));
  EXPECT_THAT(ErrorOf(with_size(R"({"embed_dim":8,"depth":1,"heads":3})")), HasSubstr("heads 3"));
  EXPECT_THAT(ErrorOf(with_size(R"({"embed_dim":800000000,"depth":1,"heads":2})")), HasSubstr("at most 8192"));
  EXPECT_THAT(ErrorOf(R"({"sizes":{"../x":{}},"backbone":[],"decoder":[]})"), HasSubstr("size name ../x"));
  EXPECT_THAT(ErrorOf(with_row("{}")), HasSubstr("a row of backbone has no name"));
  EXPECT_THAT(ErrorOf(with_row(R"({"name":"x","amplitude":1})")), HasSubstr("row x of backbone has no centre"));
  EXPECT_THAT(ErrorOf(with_row(R"({"name":"x","centre":0})")), HasSubstr("row x of backbone has no amplitude"));
  EXPECT_THAT(ErrorOf(with_row(R"({"name":"x","centre":0,"amplitude":{"gain":1,"fan":"last"}})")), HasSubstr("fan"));
  EXPECT_THAT(ErrorOf(with_row(R"({"name":"x","centre":1e300,"amplitude":1})")), HasSubstr("beyond 1e30"));
  EXPECT_THAT(ErrorOf(with_row(R"({"name":"x","special":"magic"})")), HasSubstr("unknown special"));
}

TEST(SynthesisRules, OpenReadsAFileAndNamesItInErrors) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "rules.json";
  ASSERT_TRUE(WriteFileAtomically(path, AsBytes(kRules)));
  ASSERT_TRUE(SynthesisRules::Open(path));
  EXPECT_EQ(SynthesisRules::Open(path)->FindSize("big")->embed_dim, 16);
  ASSERT_TRUE(WriteFileAtomically(path, AsBytes("{")));
  EXPECT_THAT(SynthesisRules::Open(path).error().message, HasSubstr(path.string()));
  EXPECT_EQ(SynthesisRules::Open(folder.path() / "none.json").error().code, Code::kNotFound);
}

}  // namespace
}  // namespace sightline
