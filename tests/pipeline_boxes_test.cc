// Head boxes: the guards, and the official rule that they replace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "pipeline/pipeline.h"

namespace sightline {
namespace {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Rectangle {
  int row0 = 0, row1 = 0, column0 = 0, column1 = 0;
  bool operator==(const Rectangle&) const = default;
};

// The marked rectangle; all zeros when nothing is marked.
Rectangle Marked(const HeadMask& mask) {
  Rectangle r{kGazeGrid, 0, kGazeGrid, 0};
  for (int y = 0; y < kGazeGrid; ++y) {
    for (int x = 0; x < kGazeGrid; ++x) {
      if (mask[static_cast<size_t>(y * kGazeGrid + x)] == 0) continue;
      r = {std::min(r.row0, y), std::max(r.row1, y + 1), std::min(r.column0, x), std::max(r.column1, x + 1)};
    }
  }
  return r.row1 == 0 ? Rectangle{} : r;
}

struct Outcome {
  Result<HeadRegion> region = Fail(Code::kInternal, "");
  std::vector<Warning> warnings;
};

Outcome Guarded(const Box& box, BoxUnits units, int width = 640, int height = 480) {
  Outcome outcome;
  outcome.region = MarkHead(box, units, width, height, "bboxes[1]", &outcome.warnings);
  return outcome;
}

Code CodeOf(const Outcome& outcome) { return outcome.region ? Code::kInternal : outcome.region.error().code; }

TEST(MarkHead, OrdinaryBoxesAndTies) {
  // spec 3.5: 190 / 640 * 32 is exactly 9.5 and rounds to 10; source_1's boxes.
  EXPECT_EQ(Marked(Guarded({120, 40, 190, 120}, BoxUnits::kPixels, 640, 514).region->mask), (Rectangle{2, 7, 6, 10}));
  EXPECT_EQ(Marked(Guarded({116, 28, 176, 104}, BoxUnits::kPixels, 500, 334).region->mask), (Rectangle{3, 10, 7, 11}));
  EXPECT_EQ(Marked(Guarded({87, 57, 107, 76}, BoxUnits::kPixels, 500, 334).region->mask), (Rectangle{5, 7, 6, 7}));
}

TEST(MarkHead, RefusesWhatIsNoBox) {
  for (const BoxUnits units : {BoxUnits::kPixels, BoxUnits::kNormalized}) {
    EXPECT_EQ(CodeOf(Guarded({kNan, 0.1, 0.5, 0.5}, units)), Code::kInvalidBox);
    EXPECT_EQ(CodeOf(Guarded({0.1, 0.1, kInfinity, 0.5}, units)), Code::kInvalidBox);
    EXPECT_EQ(CodeOf(Guarded({.4, .1, .2, .4}, units)), Code::kInvalidBox) << "inverted";
    EXPECT_EQ(CodeOf(Guarded({.2, .1, .2, .4}, units)), Code::kInvalidBox) << "no width";
  }
  EXPECT_EQ(CodeOf(Guarded({700, 10, 800, 50}, BoxUnits::kPixels)), Code::kBoxOutside);
  EXPECT_EQ(CodeOf(Guarded({-80, -80, -10, -10}, BoxUnits::kPixels)), Code::kBoxOutside);
  EXPECT_EQ(CodeOf(Guarded({1.1, .1, 1.4, .3}, BoxUnits::kNormalized)), Code::kBoxOutside);
  EXPECT_EQ(CodeOf(Guarded({640, 0, 700, 50}, BoxUnits::kPixels)), Code::kBoxOutside) << "only touches the edge";
  const Outcome outcome = Guarded({.4, .1, .2, .4}, BoxUnits::kNormalized);
  EXPECT_EQ(outcome.region.error().param, "bboxes[1]");
  EXPECT_THAT(outcome.region.error().message, HasSubstr("[0.4, 0.1, 0.2, 0.4]"));
}

TEST(MarkHead, CatchesUnitsMixedUp) {
  const Outcome pixels_as_fractions = Guarded({120, 40, 300, 260}, BoxUnits::kNormalized);
  ASSERT_EQ(CodeOf(pixels_as_fractions), Code::kUnitsMismatch);
  EXPECT_THAT(pixels_as_fractions.region.error().message, HasSubstr("did you mean pixels"));
  const Outcome fractions_as_pixels = Guarded({.2, .1, .5, .4}, BoxUnits::kPixels);
  ASSERT_EQ(CodeOf(fractions_as_pixels), Code::kUnitsMismatch);
  EXPECT_THAT(fractions_as_pixels.region.error().message, HasSubstr("did you mean normalized"));
  EXPECT_EQ(CodeOf(Guarded({-.2, .1, 1.3, .5}, BoxUnits::kPixels)), Code::kUnitsMismatch) << "one edge beyond 1";
  EXPECT_EQ(CodeOf(Guarded({0, 0, 1e308, 1e308}, BoxUnits::kNormalized)), Code::kUnitsMismatch);
  EXPECT_TRUE(Guarded({0, 0, 1, 1}, BoxUnits::kPixels, 1, 1).region) << "the whole of a 1x1 picture";
}

TEST(MarkHead, ClipsWithAWarning) {
  const Outcome outcome = Guarded({-.2, .1, 1.3, .5}, BoxUnits::kNormalized);
  ASSERT_TRUE(outcome.region);
  EXPECT_EQ(Marked(outcome.region->mask), (Rectangle{3, 16, 0, 32}));
  EXPECT_EQ(outcome.region->normalized.x1, 0);
  EXPECT_EQ(outcome.region->normalized.x2, 1);
  ASSERT_EQ(outcome.warnings.size(), 1u);
  EXPECT_EQ(outcome.warnings[0].code, "box_clipped");
  EXPECT_EQ(outcome.warnings[0].param, "bboxes[1]");
  EXPECT_EQ(Guarded({600, 400, 1e308, 1e308}, BoxUnits::kPixels).region->cells, 10);
}

TEST(MarkHead, WidensTinyBoxesToOneCell) {
  const Outcome outcome = Guarded({.3, .3, .301, .301}, BoxUnits::kNormalized);
  ASSERT_TRUE(outcome.region);
  EXPECT_EQ(Marked(outcome.region->mask), (Rectangle{9, 10, 9, 10}));
  ASSERT_EQ(outcome.warnings.size(), 1u);
  EXPECT_EQ(outcome.warnings[0].code, "box_widened");
  EXPECT_EQ(Marked(Guarded({638, 478, 640, 480}, BoxUnits::kPixels).region->mask), (Rectangle{31, 32, 31, 32}));
}

// Whatever the numbers: an answer with at least one cell, or a reason.
TEST(MarkHead, NeverAnEmptyMask) {
  const double values[] = {-1e308, -640, -1.5, -0.2, -1e-9, 0,     1e-12, 0.0156, 0.3,  0.484375,
                           0.999,  1,    1.3,  2,    17,    639.9, 640,   1e5,    1e308};
  for (const BoxUnits units : {BoxUnits::kPixels, BoxUnits::kNormalized}) {
    for (double x1 : values)
      for (double y1 : values)
        for (double x2 : values)
          for (double y2 : values) {
            const Outcome outcome = Guarded({x1, y1, x2, y2}, units);
            if (outcome.region)
              ASSERT_GT(outcome.region->cells, 0);
            else
              ASSERT_FALSE(outcome.region.error().message.empty());
          }
  }
}

TEST(MarkHeadLikeReference, FollowsPythonSlices) {
  const auto mark = [](Box box) { return Marked(MarkHeadLikeReference(box, BoxUnits::kNormalized, 9, 9, "b")->mask); };
  EXPECT_EQ(mark({-0.1, 0.1, 0.2, 0.3}), Rectangle{}) << "start 29, stop 6";
  EXPECT_EQ(mark({-0.5, -0.5, -0.1, -0.1}), (Rectangle{16, 29, 16, 29}));
  EXPECT_EQ(mark({0.4, 0.1, 0.2, 0.4}), Rectangle{}) << "inverted";
  EXPECT_EQ(mark({0.5, 0.5, 7, 7}), (Rectangle{16, 32, 16, 32}));
  EXPECT_EQ(mark({0, 0, 0.5 / 32, 1.5 / 32}), Rectangle{}) << "0.5 rounds to 0";
  EXPECT_EQ(mark({0, 0, 2.5 / 32, 3.5 / 32}), (Rectangle{0, 4, 0, 2})) << "half to even";
  EXPECT_EQ(MarkHeadLikeReference(std::nullopt, BoxUnits::kPixels, 9, 9, "b")->cells, 0);
  EXPECT_EQ(MarkHeadLikeReference(Box{kNan, 0, 1, 1}, BoxUnits::kPixels, 9, 9, "b").error().code, Code::kInvalidBox);
}

// Every box of the goldens marks the cells that the official code marked.
TEST(MarkHeadLikeReference, MatchesTheGoldens) {
  const auto all = nlohmann::json::parse(std::ifstream(SIGHTLINE_TEST_DATA "/gaze/cases.json"));
  for (const auto& [name, golden] : all.at("cases").items()) {
    for (const auto& person : golden.at("people")) {
      std::optional<Box> box;
      if (const auto& b = person.at("box_norm"); !b.is_null()) box = Box{b[0], b[1], b[2], b[3]};
      const auto region = MarkHeadLikeReference(box, BoxUnits::kNormalized, 1, 1, "box");
      EXPECT_EQ(region->cells, person.at("mask_cells").get<int>()) << name;
      const auto& cells = person.at("mask_rows_cols");
      const Rectangle expected = cells.is_null() ? Rectangle{} : Rectangle{cells[0], cells[1], cells[2], cells[3]};
      EXPECT_EQ(Marked(region->mask), expected) << name;
    }
  }
}

}  // namespace
}  // namespace sightline
