// LocateAnything's resizes against Pillow and the official processor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "media/media.h"
#include "weights/weights.h"

namespace sightline {
namespace {

using nlohmann::json;

const json& Goldens() {
  static const json goldens =
      json::parse(std::ifstream(std::filesystem::path(SIGHTLINE_TEST_DATA) / "locate" / "preprocess.json"));
  return goldens;
}

std::string Digest(const Image& image) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016lx", Fnv1a64(AsBytes(image.rgb)));
  return text;
}

Image Noise(const json& row) {
  const int width = row["w"].get<int>(), height = row["h"].get<int>();
  return {width, height, SyntheticRgb(row["seed"].get<uint64_t>(), width, height)};
}

Image Rescaled(const Image& image, const RescalePlan& plan) {
  return ResizePillowBicubic(ResizePillowBicubic(image, plan.step_width, plan.step_height), plan.width, plan.height);
}

TEST(ResizePillowBicubic, IsBitExact) {
  ASSERT_EQ(Goldens()["resize_vectors"].size(), 8u);
  for (const json& row : Goldens()["resize_vectors"]) {
    Image image{row["from"][0].get<int>(), row["from"][1].get<int>(), {}};
    image.rgb.resize(static_cast<size_t>(image.width) * static_cast<size_t>(image.height) * 3);
    uint32_t state = 12345;
    for (uint8_t& value : image.rgb) value = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
    for (const json& step : row["steps"]) {
      image = ResizePillowBicubic(image, step["to"][0].get<int>(), step["to"][1].get<int>());
      EXPECT_EQ(Digest(image), step["fnv"]) << step.dump();
      const std::vector<uint8_t> first(image.rgb.begin(), image.rgb.begin() + 9);
      EXPECT_EQ(first, step["first9"].get<std::vector<uint8_t>>());
    }
  }
}

// Compares the RGB pictures with `least` to `most` pixels; other modes differ before the resize. Returns how many.
int CompareWithProcessor(int64_t least, int64_t most) {
  int compared = 0;
  for (const json& row : Goldens()["cases"]) {
    const int64_t pixels = row["w"].get<int64_t>() * row["h"].get<int64_t>();
    if (row["mode"] != "RGB" || pixels < least || pixels > most) continue;
    const Image image = Noise(row);
    EXPECT_EQ(Digest(image), row["rgb_fnv"]);
    const RescalePlan plan = PlanRescale(image.width, image.height, row["in_token_limit"].get<int64_t>());
    const auto step = row.value("step1", std::vector{image.width, image.height});
    EXPECT_EQ((std::vector{plan.step_width, plan.step_height}), step);
    EXPECT_EQ((std::vector{plan.width, plan.height}), row["resized"].get<std::vector<int>>());
    EXPECT_EQ(Digest(Rescaled(image, plan)), row["resized_fnv"]) << row.dump();
    ++compared;
  }
  return compared;
}
constexpr int64_t kLarge = 1'500'000;

TEST(ResizePillowBicubic, MatchesTheOfficialProcessor) { EXPECT_EQ(CompareWithProcessor(1, kLarge - 1), 24); }

TEST(Long_ResizePillowBicubic, MatchesTheOfficialProcessorOnLargePictures) {
  EXPECT_EQ(CompareWithProcessor(kLarge, INT64_MAX), 8);
}

TEST(ResizePillowBicubic, SquashesToTheCanonicalGrid) {
  for (const json& row : Goldens()["canonical_616x336"]) {
    const Image image = Noise(row);
    const Image rescaled = Rescaled(image, PlanRescale(image.width, image.height, 1024));
    EXPECT_EQ(Digest(rescaled), row["rescaled_fnv"]);
    EXPECT_EQ(Digest(ResizePillowBicubic(rescaled, 616, 336)), row["squashed_fnv"]) << row.dump();
  }
}

TEST(ResizePillowBicubic, AConstantPictureStaysConstant) {
  for (const int value : {0, 1, 200, 255}) {
    for (const auto& [width, height] : {std::pair(1, 1), {1, 900}, {65500, 2}, {333, 517}}) {
      const Image image{width, height,
                        std::vector<uint8_t>(static_cast<size_t>(width) * static_cast<size_t>(height) * 3,
                                             static_cast<uint8_t>(value))};
      EXPECT_THAT(ResizePillowBicubic(image, 56, 28).rgb, testing::Each(value));
    }
  }
}

TEST(ResizePillowBicubic, OvershootIsClipped) {
  Image image{8, 1, std::vector<uint8_t>(24)};
  std::fill(image.rgb.begin() + 12, image.rgb.end(), uint8_t{255});
  const Image large = ResizePillowBicubic(image, 64, 1);
  EXPECT_EQ(*std::ranges::min_element(large.rgb), 0);
  EXPECT_EQ(*std::ranges::max_element(large.rgb), 255);
}

TEST(PlanRescale, FollowsTheTableOfTheOfficialCode) {
  struct Row {
    int64_t limit;
    int width, height, step_width, step_height, final_width, final_height;
  };
  const std::vector<Row> rows = {
      {1024, 1920, 1080, 598, 336, 616, 336},
      {1024, 640, 480, 523, 392, 532, 392},
      {1024, 2560, 1600, 568, 355, 588, 364},
      {25600, 448, 448, 448, 448, 448, 448},
      {25600, 640, 480, 640, 480, 644, 504},
      {25600, 1920, 1080, 1920, 1080, 1932, 1092},
      {25600, 3840, 2160, 2990, 1682, 2996, 1708},
      {25600, 4096, 4096, 2244, 2244, 2268, 2268},
      {25600, 13, 13, 13, 13, 28, 28},
      {25600, 1, 500, 1, 500, 28, 504},
      {25600, 7140, 14, 7140, 14, 7140, 28},
      {25600, 7141, 14, 7141, 14, 7168, 28},
  };
  for (const Row& row : rows) {
    const RescalePlan plan = PlanRescale(row.width, row.height, row.limit);
    EXPECT_EQ((std::vector{plan.step_width, plan.step_height, plan.width, plan.height}),
              (std::vector{row.step_width, row.step_height, row.final_width, row.final_height}))
        << row.width << "x" << row.height;
  }
}

TEST(PlanRescale, IsNeverEmpty) {
  for (const int64_t limit : {1, 2, 100, 25600}) {
    for (const auto& [width, height] : {std::pair(1, 1), {65500, 14}, {14, 65500}, {65500, 65500}}) {
      const RescalePlan plan = PlanRescale(width, height, limit);
      EXPECT_GE(std::min(plan.step_width, plan.step_height), 1);
      EXPECT_GE(std::min(plan.width, plan.height), 28);
      EXPECT_EQ(plan.width % 28 + plan.height % 28, 0);
    }
  }
}

}  // namespace
}  // namespace sightline
