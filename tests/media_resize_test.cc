// The exact resizes against torch (profile U) and Pillow (profile P), and what must hold for any picture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "media/media.h"

namespace sightline {
namespace {

constexpr int kSide = 448;
constexpr double kTolerance = 1e-6;
const std::filesystem::path kGoldens = std::filesystem::path(SIGHTLINE_TEST_DATA) / "gaze";

Image ReadPicture(const std::filesystem::path& path) {
  const auto file = ReadFile(path, 1 << 26);
  EXPECT_TRUE(file.has_value()) << path;
  return DecodeImage(*file, {.reference = true})->image;
}

// The float32 values of a one-dimensional .npy file.
std::vector<float> ReadNpy(const std::filesystem::path& path) {
  const std::vector<std::byte> file = ReadFile(path, 1 << 26).value();
  const size_t header = 10 + std::to_integer<size_t>(file[8]) + 256 * std::to_integer<size_t>(file[9]);
  std::vector<float> values((file.size() - header) / sizeof(float));
  std::memcpy(values.data(), file.data() + header, values.size() * sizeof(float));
  return values;
}

nlohmann::json ReadJson(const std::string& name) {
  std::ifstream file(kGoldens / name);
  return nlohmann::json::parse(file);
}

Image Constant(int width, int height, uint8_t value) {
  return {width, height, std::vector<uint8_t>(static_cast<size_t>(width) * static_cast<size_t>(height) * 3, value)};
}

// Any picture whose pixels differ: a multiplicative sequence.
Image Pattern(int width, int height) {
  Image image = Constant(width, height, 0);
  uint32_t state = 1;
  for (uint8_t& value : image.rgb) value = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return image;
}

class ResizeCase : public testing::TestWithParam<std::string> {};

TEST_P(ResizeCase, MatchesTheReference) {
  const nlohmann::json row = ReadJson("cases.json")["cases"][GetParam()];
  const Image image = ReadPicture(kGoldens / row["image"].get<std::string>());
  const bool upstream = row["profile"] == "U";
  const std::vector<float> values = upstream ? ResizeUpstream(image, kSide) : ResizePort(image, kSide);
  const std::vector<float> expected = ReadNpy(kGoldens / "cases" / GetParam() / "input.s97.npy");
  ASSERT_EQ(expected.size(), (values.size() + 96) / 97);
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(values[97 * i]) - expected[i]));
  }
  EXPECT_LE(worst, kTolerance);
}

std::vector<std::string> CasesWithInput() {
  std::vector<std::string> names;
  for (const auto& folder : std::filesystem::directory_iterator(kGoldens / "cases")) {
    if (exists(folder.path() / "input.s97.npy")) names.push_back(folder.path().filename());
  }
  std::ranges::sort(names);
  return names;
}
std::string TestName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Goldens, ResizeCase, testing::ValuesIn(CasesWithInput()), TestName);

TEST(ResizePillowBilinear, IsBitExact) {
  const nlohmann::json rows = ReadJson("resize_p.json")["images"];
  ASSERT_GE(rows.size(), 6U);
  for (const auto& [name, row] : rows.items()) {
    const Image small = ResizePillowBilinear(ReadPicture(kGoldens / name), kSide, kSide);
    EXPECT_EQ(Sha256Hex(AsBytes(small.rgb)), row["sha256_horizontal_first"].get<std::string>()) << name;
  }
}

TEST(Resize, TheSameSizeChangesNothing) {
  const Image image = Pattern(kSide, kSide);
  EXPECT_EQ(ResizePillowBilinear(image, kSide, kSide).rgb, image.rgb);
  EXPECT_EQ(ResizeUpstream(image, kSide), ResizePort(image, kSide));
}

TEST(Resize, AConstantPictureStaysConstant) {
  for (const auto& [width, height] : {std::pair(1, 1), {1, 900}, {900, 1}, {333, 517}, {1920, 1080}}) {
    const Image image = Constant(width, height, 200);
    EXPECT_THAT(ResizePillowBilinear(image, 64, 48).rgb, testing::Each(200));
    const std::vector<float> values = ResizeUpstream(image, 64);
    const std::vector<float> exact = ResizePort(Constant(1, 1, 200), 64);
    ASSERT_EQ(values.size(), exact.size());
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], exact[i], 2e-6);
  }
}

// The two profiles differ by rounding to 8 bit: at most one level a pass.
TEST(Resize, ProfilesAgreeButForRounding) {
  for (const auto& [width, height] : {std::pair(37, 1000), {1000, 37}, {640, 480}, {2, 3}}) {
    const Image image = Pattern(width, height);
    const std::vector<float> upstream = ResizeUpstream(image, 96), port = ResizePort(image, 96);
    for (size_t i = 0; i < upstream.size(); ++i) ASSERT_NEAR(upstream[i], port[i], 2 / 255.0 / 0.224);
  }
}

TEST(Resize, TheLongestSidesWork) {
  for (const auto& [width, height] : {std::pair(65500, 2), {2, 65500}}) {
    const Image image = Constant(width, height, 7);
    EXPECT_THAT(ResizePillowBilinear(image, 5, 5).rgb, testing::Each(7));
    EXPECT_EQ(ResizeUpstream(image, 14).size(), 3U * 14 * 14);
  }
}

TEST(EnlargeBilinear, InterpolatesBetweenCentresAndClampsAtEdges) {
  const std::vector<float> values = {0, 1, 2, 3};
  EXPECT_THAT(EnlargeBilinear(values, 2, 2, 4, 4), testing::ElementsAre(0, 0.25F, 0.75F, 1, 0.5F, 0.75F, 1.25F, 1.5F,
                                                                        1.5F, 1.75F, 2.25F, 2.5F, 2, 2.25F, 2.75F, 3));
  EXPECT_EQ(EnlargeBilinear(values, 2, 2, 2, 2), values);
  EXPECT_THAT(EnlargeBilinear(std::vector<float>{5}, 1, 1, 3, 2), testing::Each(5));
}

}  // namespace
}  // namespace sightline
