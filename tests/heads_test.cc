#include "heads/heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace sightline {
namespace {

const std::filesystem::path kPictures = SIGHTLINE_TEST_DATA "/images";
const std::filesystem::path kGroup = SIGHTLINE_TEST_DATA "/../../assets/group_1927.jpg";

Image ReadPicture(const std::filesystem::path& path) {
  auto file = ReadFile(path, size_t{1} << 24);
  EXPECT_TRUE(file) << path;
  auto decoded = DecodeImage(*file);
  EXPECT_TRUE(decoded) << path;
  return std::move(decoded->image);
}

std::vector<Box> LabelledHeads(const std::string& name) {
  const auto labels = nlohmann::json::parse(std::ifstream(kPictures / "heads.json"));
  std::vector<Box> boxes;
  for (const auto& box : labels.at("heads").at(name)) boxes.push_back({box[0], box[1], box[2], box[3]});
  return boxes;
}

double Iou(const Box& a, const Box& b) {
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (width <= 0 || height <= 0) return 0;
  const double both = width * height;
  return both / ((a.x2 - a.x1) * (a.y2 - a.y1) + (b.x2 - b.x1) * (b.y2 - b.y1) - both);
}

// How many labelled heads have a found one of their own with an IoU of 0.5 or more.
int CountMatches(const std::vector<Head>& heads, const std::vector<Box>& labels) {
  std::vector<bool> used(heads.size());
  int matches = 0;
  for (const Box& label : labels) {
    for (size_t i = 0; i < heads.size(); ++i) {
      if (used[i] || Iou(heads[i].box, label) < 0.5) continue;
      used[i] = true;
      ++matches;
      break;
    }
  }
  return matches;
}

bool Inside(const Box& inner, const Box& outer) {
  return inner.x1 >= outer.x1 && inner.y1 >= outer.y1 && inner.x2 <= outer.x2 && inner.y2 <= outer.y2;
}

bool Same(const Box& a, const Box& b) { return a.x1 == b.x1 && a.y1 == b.y1 && a.x2 == b.x2 && a.y2 == b.y2; }

void ExpectSame(const HeadsFound& a, const HeadsFound& b) {
  EXPECT_EQ(a.above_threshold, b.above_threshold);
  ASSERT_EQ(a.heads.size(), b.heads.size());
  for (size_t i = 0; i < a.heads.size(); ++i) {
    EXPECT_TRUE(Same(a.heads[i].box, b.heads[i].box)) << i;
    EXPECT_TRUE(Same(a.heads[i].face, b.heads[i].face)) << i;
    EXPECT_EQ(a.heads[i].score, b.heads[i].score) << i;
  }
}

// Every pixel becomes factor x factor pixels.
Image Enlarge(const Image& image, int factor) {
  Image large{image.width * factor, image.height * factor, {}};
  large.rgb.reserve(static_cast<size_t>(large.width) * static_cast<size_t>(large.height) * 3);
  for (int y = 0; y < large.height; ++y) {
    for (int x = 0; x < large.width; ++x) {
      const size_t from =
          (static_cast<size_t>(y / factor) * static_cast<size_t>(image.width) + static_cast<size_t>(x / factor)) * 3;
      large.rgb.insert(large.rgb.end(), {image.rgb[from], image.rgb[from + 1], image.rgb[from + 2]});
    }
  }
  return large;
}

Image Blank(int width, int height, uint8_t value) {
  return {width, height, std::vector<uint8_t>(static_cast<size_t>(width) * static_cast<size_t>(height) * 3, value)};
}

class HeadsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto loaded = HeadDetector::Load();
    ASSERT_TRUE(loaded) << loaded.error().message;
    detector_ = std::move(*loaded);
  }
  static void TearDownTestSuite() { detector_.reset(); }

  static HeadsFound Detect(const Image& image, const HeadOptions& options = {}) {
    auto found = detector_->Detect(image, options);
    EXPECT_TRUE(found) << found.error().message;
    return found ? *found : HeadsFound{};
  }
  static Image Group() {
    static const Image group = ReadPicture(kGroup);
    return group;
  }

  static inline std::unique_ptr<HeadDetector> detector_;
};

TEST_F(HeadsTest, FindsAll29PeopleOfTheGroup) {
  const auto found = Detect(Group(), {.max_heads = 100});
  EXPECT_EQ(found.above_threshold, 29);
  EXPECT_EQ(found.heads.size(), 29u);
  EXPECT_EQ(CountMatches(found.heads, LabelledHeads("group_1927.jpg")), 29);
}

TEST_F(HeadsTest, FindsTheOnlyPersonOfAPortrait) {
  for (const std::string name : {"astronaut.png", "hopper.jpg", "reading.jpg"}) {
    const auto found = Detect(ReadPicture(kPictures / name));
    EXPECT_EQ(found.heads.size(), 1u) << name;
    EXPECT_EQ(CountMatches(found.heads, LabelledHeads(name)), 1) << name;
  }
}

TEST_F(HeadsTest, FindsNobodyWhereNobodyIs) {
  for (const std::string name : {"cat.png", "coffee.png"}) {
    for (const double threshold : {0.5, 0.35}) {
      const auto found = Detect(ReadPicture(kPictures / name), {.threshold = threshold});
      EXPECT_TRUE(found.heads.empty()) << name << " at " << threshold;
      EXPECT_EQ(found.above_threshold, 0) << name << " at " << threshold;
    }
  }
}

TEST_F(HeadsTest, BoxesLieInsideThePictureAndRunLeftToRight) {
  const Image group = Group();
  const Box picture = {0, 0, static_cast<double>(group.width), static_cast<double>(group.height)};
  double last = 0;
  for (const Head& head : Detect(group, {.threshold = 0.3, .max_heads = 100}).heads) {
    EXPECT_TRUE(Inside(head.box, picture));
    EXPECT_TRUE(Inside(head.face, head.box));
    EXPECT_GT(head.score, 0.3);
    EXPECT_LE(head.score, 1);
    EXPECT_GE(head.box.x1, last);
    last = head.box.x1;
  }
}

TEST_F(HeadsTest, KeepsTheBestByScore) {
  const auto all = Detect(Group(), {.max_heads = 100});
  const auto five = Detect(Group(), {.max_heads = 5});
  EXPECT_EQ(five.above_threshold, all.above_threshold);
  ASSERT_EQ(five.heads.size(), 5u);
  std::vector<double> scores, kept;
  for (const Head& head : all.heads) scores.push_back(head.score);
  for (const Head& head : five.heads) kept.push_back(head.score);
  std::sort(scores.rbegin(), scores.rend());
  std::sort(kept.rbegin(), kept.rend());
  scores.resize(5);
  EXPECT_EQ(kept, scores);
  EXPECT_TRUE(Detect(Group(), {.max_heads = 0}).heads.empty());
}

TEST_F(HeadsTest, HeadAtTheEdgeIsFlagged) {
  const Image astronaut = ReadPicture(kPictures / "astronaut.png");
  Image lower{astronaut.width, astronaut.height - 60, {}};  // cuts into the hair, not into the face
  lower.rgb.assign(astronaut.rgb.begin() + 60 * astronaut.width * 3, astronaut.rgb.end());
  const auto whole = Detect(astronaut);
  const auto cut = Detect(lower);
  ASSERT_EQ(whole.heads.size(), 1u);
  ASSERT_EQ(cut.heads.size(), 1u);
  EXPECT_FALSE(whole.heads[0].clipped);
  EXPECT_TRUE(cut.heads[0].clipped);
  EXPECT_EQ(cut.heads[0].box.y1, 0);
}

// OpenCV 4.6 computes nonsense from the third size on when layers are fused anew.
TEST_F(HeadsTest, PictureSizesInTurnGiveTheSameAsAlone) {
  for (int round = 0; round < 2; ++round) {
    for (const std::string name : {"astronaut.png", "hopper.jpg", "reading.jpg", "coffee.png"}) {
      const Image image = ReadPicture(kPictures / name);
      auto alone = HeadDetector::Load();
      ASSERT_TRUE(alone);
      const auto expected = (*alone)->Detect(image, {});
      ASSERT_TRUE(expected);
      ExpectSame(Detect(image), *expected);
    }
  }
}

TEST_F(HeadsTest, RepeatsBitForBit) {
  const auto first = Detect(Group(), {.max_heads = 100});
  for (int i = 0; i < 3; ++i) ExpectSame(Detect(Group(), {.max_heads = 100}), first);
}

TEST_F(HeadsTest, TwoThreadsAtOnce) {
  const std::vector<Image> images = {ReadPicture(kPictures / "astronaut.png"), ReadPicture(kPictures / "hopper.jpg")};
  std::vector<HeadsFound> expected;
  for (const Image& image : images) expected.push_back(Detect(image));
  std::vector<HeadsFound> found(8);
  std::vector<std::thread> threads;
  for (size_t member = 0; member < 2; ++member) {
    threads.emplace_back([&, member] {
      for (size_t i = member; i < found.size(); i += 2) found[i] = Detect(images[i / 2 % 2]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < found.size(); ++i) ExpectSame(found[i], expected[i / 2 % 2]);
}

TEST_F(HeadsTest, LargePicturesKeepTheirOwnCoordinates) {
  const Image large = Enlarge(Group(), 3);  // 13 megapixels
  auto labels = LabelledHeads("group_1927.jpg");
  for (Box& label : labels) label = {label.x1 * 3, label.y1 * 3, label.x2 * 3, label.y2 * 3};
  const auto found = Detect(large, {.max_heads = 100});
  EXPECT_EQ(found.heads.size(), 29u);
  EXPECT_EQ(CountMatches(found.heads, labels), 29);
}

TEST_F(HeadsTest, AnySizeOfPictureIsAnswered) {
  struct {
    int width, height;
  } const sizes[] = {{1, 1}, {2, 3}, {1, 500}, {500, 1}, {7, 7}, {8, 8}, {31, 33}, {4, 7200}, {9, 20000}, {8000, 6000}};
  for (const auto& size : sizes) {
    EXPECT_TRUE(Detect(Blank(size.width, size.height, 128)).heads.empty()) << size.width << "x" << size.height;
  }
}

TEST_F(HeadsTest, EveryCellAboveTheThresholdIsStillAnswered) {
  const Image group = Group();
  const Box picture = {0, 0, static_cast<double>(group.width), static_cast<double>(group.height)};
  const auto found = Detect(group, {.threshold = 0, .max_heads = std::numeric_limits<int>::max()});
  EXPECT_GT(found.heads.size(), 29u);
  for (const Head& head : found.heads) EXPECT_TRUE(Inside(head.box, picture));
}

TEST_F(HeadsTest, WrongOptionsAreNamed) {
  const Image image = Blank(64, 64, 0);
  for (const double threshold : {-0.1, 1.5, std::nan("")}) {
    const auto found = detector_->Detect(image, {.threshold = threshold});
    ASSERT_FALSE(found) << threshold;
    EXPECT_EQ(found.error().code, Code::kInvalidRequest);
    EXPECT_NE(found.error().message.find("threshold"), std::string::npos);
  }
  const auto found = detector_->Detect(image, {.max_heads = -1});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message, "max_heads is -1, expected 0 or more");
}

}  // namespace
}  // namespace sightline
