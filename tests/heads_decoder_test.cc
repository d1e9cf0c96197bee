#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "heads/face_decoder.h"

namespace sightline {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A grid without faces.
FaceMaps EmptyMaps(int width, int height) {
  const size_t cells = static_cast<size_t>(width) * static_cast<size_t>(height);
  return {width, height, std::vector<float>(cells, 0.0f), std::vector<float>(2 * cells, 0.0f),
          std::vector<float>(2 * cells, 0.0f)};
}

TEST(FaceDecoder, ReadsHeightAndYBeforeWidthAndX) {
  FaceMaps maps = EmptyMaps(16, 8);
  const size_t cell = 3 * 16 + 5;
  maps.heat[cell] = 0.75f;
  maps.scale[cell] = std::log(4.0f);
  maps.scale[128 + cell] = std::log(2.0f);
  maps.offset[cell] = 0.25f;
  maps.offset[128 + cell] = -0.5f;
  const auto faces = DecodeFaces(maps, 0.5, 160, 40);  // cells of 10 x 5 pixels
  ASSERT_EQ(faces.size(), 1u);
  EXPECT_EQ(faces[0].score, 0.75);
  EXPECT_NEAR(faces[0].box.x1, 40, 1e-4);  // centre 10 * (5 + 0.5 - 0.5) = 50, width 20
  EXPECT_NEAR(faces[0].box.x2, 60, 1e-4);
  EXPECT_NEAR(faces[0].box.y1, 8.75, 1e-4);  // centre 5 * (3 + 0.5 + 0.25) = 18.75, height 20
  EXPECT_NEAR(faces[0].box.y2, 28.75, 1e-4);
}

TEST(FaceDecoder, OnlyHeatAboveTheThresholdCounts) {
  FaceMaps maps = EmptyMaps(8, 8);
  maps.heat[9] = 0.5f;
  EXPECT_TRUE(DecodeFaces(maps, 0.5, 32, 32).empty());
  EXPECT_EQ(DecodeFaces(maps, 0.49, 32, 32).size(), 1u);
}

TEST(FaceDecoder, SkipsWhatIsNotFinite) {
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    FaceMaps maps = EmptyMaps(8, 8);
    for (size_t cell = 0; cell < 6; ++cell) maps.heat[cell] = 0.9f;
    maps.heat[0] = kNan;
    maps.scale[1] = bad;
    maps.scale[64 + 2] = bad;
    maps.offset[3] = bad;
    maps.offset[64 + 4] = bad;
    const auto faces = DecodeFaces(maps, 0.5, 32, 32);
    ASSERT_EQ(faces.size(), 1u) << bad;
    EXPECT_EQ(faces[0].box.x1, 20) << bad;  // cell 5 alone is sound
  }
}

TEST(FaceDecoder, SkipsFacesOutsideThePictureAndBelowAPixel) {
  FaceMaps maps = EmptyMaps(8, 8);
  maps.heat[0] = maps.heat[9] = 0.9f;
  maps.offset[0] = -3;  // above the upper edge
  maps.scale[9] = -5;   // 0.03 pixels high
  EXPECT_TRUE(DecodeFaces(maps, 0.5, 32, 32).empty());
}

TEST(FaceDecoder, BestFirstAndBounded) {
  FaceMaps maps = EmptyMaps(320, 320);
  for (size_t cell = 0; cell < maps.heat.size(); ++cell) maps.heat[cell] = 0.5f;
  maps.heat[70'000] = 0.9f;
  const auto faces = DecodeFaces(maps, 0, 1280, 1280);
  EXPECT_EQ(faces.size(), 4096u);
  EXPECT_FLOAT_EQ(static_cast<float>(faces[0].score), 0.9f);
}

TEST(FaceDecoder, SuppressesTheWorseOfTwoThatOverlap) {
  const std::vector<Face> faces = {{{0, 0, 10, 10}, 0.9}, {{0, 5, 10, 15}, 0.8}, {{0, 6, 10, 16}, 0.7}};
  const auto kept = SuppressOverlaps(faces, 0.3);  // IoU with the first: 1/3 and 1/4
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].score, 0.9);
  EXPECT_EQ(kept[1].score, 0.7);
}

TEST(FaceDecoder, WidensAFaceToItsHead) {
  const Head head = WidenToHead({{100, 200, 200, 300}, 0.8}, 640, 480);
  EXPECT_DOUBLE_EQ(head.box.x1, 72);
  EXPECT_DOUBLE_EQ(head.box.y1, 160);
  EXPECT_DOUBLE_EQ(head.box.x2, 228);
  EXPECT_DOUBLE_EQ(head.box.y2, 308);
  EXPECT_EQ(head.face.x1, 100);
  EXPECT_EQ(head.score, 0.8);
  EXPECT_FALSE(head.clipped);
}

TEST(FaceDecoder, CutsHeadAndFaceAtTheEdges) {
  const Head head = WidenToHead({{-10, 20, 90, 470}, 0.8}, 100, 480);
  EXPECT_TRUE(head.clipped);
  EXPECT_EQ(head.box.x1, 0);
  EXPECT_EQ(head.box.y1, 0);
  EXPECT_EQ(head.box.x2, 100);
  EXPECT_EQ(head.box.y2, 480);
  EXPECT_EQ(head.face.x1, 0);
  EXPECT_EQ(head.face.x2, 90);
}

}  // namespace
}  // namespace sightline
