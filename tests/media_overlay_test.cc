// Overlays, checked by the pixels a viewer looks for, and npz files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <thread>

#include "media/media.h"

// Fontconfig keeps offsets instead of pointers in the patterns of the fonts in use, which LeakSanitizer takes for lost.
extern "C" const char* __lsan_default_suppressions() { return "leak:libfontconfig"; }

namespace sightline {
namespace {

constexpr uint8_t kGround = 90;

Image Grey(int width, int height) {
  return {width, height, std::vector<uint8_t>(static_cast<size_t>(width) * static_cast<size_t>(height) * 3, kGround)};
}

Image Draw(const Image& image, std::span<const OverlayPerson> people, const OverlayOptions& options = {}) {
  const auto png = DrawOverlay(image, people, options);
  EXPECT_TRUE(png.has_value()) << png.error().message;
  return DecodeImage(*png)->image;
}

std::span<const uint8_t> At(const Image& image, int x, int y) {
  return std::span(image.rgb).subspan(
      (static_cast<size_t>(y) * static_cast<size_t>(image.width) + static_cast<size_t>(x)) * 3, 3);
}

int CountChanged(const Image& image, const Box& area) {
  int count = 0;
  for (int y = static_cast<int>(area.y1); y < static_cast<int>(area.y2); ++y) {
    for (int x = static_cast<int>(area.x1); x < static_cast<int>(area.x2); ++x) {
      count += std::ranges::count(At(image, x, y), kGround) != 3;
    }
  }
  return count;
}

// Lime, but for the softened edge of a line.
bool IsLime(std::span<const uint8_t> pixel) { return pixel[0] < 40 && pixel[1] > 215 && pixel[2] < 40; }

OverlayPerson Person(Box head, std::optional<Point> target, std::string label = {}) {
  return {head, target, std::move(label), {}};
}

TEST(DrawOverlay, BoxAndArrowHaveThePersonsColour) {
  const OverlayPerson people[] = {Person({100, 100, 200, 220}, Point{700, 160})};
  const Image image = Draw(Grey(800, 600), people);
  ASSERT_EQ(image.width, 800);
  ASSERT_EQ(image.height, 600);
  EXPECT_TRUE(IsLime(At(image, 100, 130)));
  EXPECT_TRUE(IsLime(At(image, 150, 220)));
  EXPECT_TRUE(IsLime(At(image, 450, 160)));
  EXPECT_TRUE(IsLime(At(image, 695, 160)));
  EXPECT_EQ(CountChanged(image, {0, 300, 800, 600}), 0);
  EXPECT_EQ(CountChanged(image, {710, 0, 800, 600}), 0);
}

TEST(DrawOverlay, PeopleHaveDifferentColours) {
  std::vector<OverlayPerson> people;
  for (int i = 0; i < 8; ++i) people.push_back(Person({100.0 * i + 20, 100, 100.0 * i + 80, 160}, std::nullopt));
  const Image image = Draw(Grey(840, 600), people);
  std::vector<std::vector<uint8_t>> colours;
  for (int i = 0; i < 8; ++i) {
    const auto pixel = At(image, 100 * i + 20, 130);
    colours.emplace_back(pixel.begin(), pixel.end());
  }
  std::ranges::sort(colours);
  EXPECT_EQ(std::ranges::adjacent_find(colours), colours.end());
}

TEST(DrawOverlay, WhoLooksOutOfThePictureGetsAMarkAndNoArrow) {
  const OverlayPerson inside[] = {Person({300, 200, 400, 300}, Point{350, 500})};
  const OverlayPerson outside[] = {Person({300, 200, 400, 300}, std::nullopt)};
  const Image with_arrow = Draw(Grey(800, 600), inside), with_mark = Draw(Grey(800, 600), outside);
  const Box below = {300, 320, 400, 520}, corner = {404, 304, 412, 312};
  EXPECT_GT(CountChanged(with_arrow, below), 0);
  EXPECT_EQ(CountChanged(with_mark, below), 0);
  EXPECT_GT(CountChanged(with_mark, corner), CountChanged(with_arrow, corner));
}

TEST(DrawOverlay, SmallPicturesAreEnlargedAndHugeOnesReduced) {
  const OverlayPerson people[] = {Person({10, 10, 40, 40}, Point{80, 70}, "in frame 0.94")};
  const auto size_of = [&](int width, int height) {
    const Image image = Draw(Grey(width, height), people);
    return std::pair(image.width, image.height);
  };
  EXPECT_EQ(size_of(100, 80), std::pair(500, 400));
  EXPECT_EQ(size_of(1, 1), std::pair(400, 400));
  EXPECT_EQ(size_of(3840, 2160), std::pair(3840, 2160));
  EXPECT_EQ(size_of(4, 7200), std::pair(2, 4096));
  EXPECT_EQ(size_of(8192, 1024), std::pair(4096, 512));
}

TEST(DrawOverlay, LabelsOfHeadsAtTheEdgesStayInside) {
  const OverlayPerson bare[] = {Person({0, 0, 60, 60}, Point{30, 30}), Person({740, 540, 800, 600}, Point{770, 570})};
  OverlayPerson labelled[] = {bare[0], bare[1]};
  for (OverlayPerson& person : labelled) person.label = "in frame 0.94";
  const Image without = Draw(Grey(800, 600), bare), with = Draw(Grey(800, 600), labelled);
  // All of both labels is there: the same text beside a head in the middle changes as many pixels.
  const OverlayPerson middle[] = {Person({370, 270, 430, 330}, Point{400, 300}, "in frame 0.94")};
  const OverlayPerson middle_bare[] = {Person({370, 270, 430, 330}, Point{400, 300})};
  const Box all = {0, 0, 800, 600};
  const int one =
      CountChanged(Draw(Grey(800, 600), middle), all) - CountChanged(Draw(Grey(800, 600), middle_bare), all);
  EXPECT_GT(one, 500);
  EXPECT_NEAR(CountChanged(with, all) - CountChanged(without, all), 2 * one, 0.15 * one);
}

TEST(DrawOverlay, HeatMapsAreBlendedOnRequest) {
  std::vector<float> heat(64 * 64, 0.0F);
  for (int y = 30; y < 34; ++y) std::fill_n(heat.begin() + y * 64 + 30, 4, 1.0F);
  OverlayPerson person = Person({10, 10, 60, 60}, std::nullopt);
  person.heatmap = heat;
  const Box middle = {390, 290, 410, 310}, far_away = {600, 400, 800, 600};
  const Image with = Draw(Grey(800, 600), std::span(&person, 1), {.blend_heatmaps = true, .banner = {}});
  EXPECT_EQ(CountChanged(with, middle), 400);
  EXPECT_GT(At(with, 400, 300)[0], 180);  // red is hot
  EXPECT_EQ(CountChanged(with, far_away), 0);
  EXPECT_EQ(CountChanged(Draw(Grey(800, 600), std::span(&person, 1)), middle), 0);
}

TEST(DrawOverlay, TheBannerIsAcrossTheLowerEdge) {
  const Image image = Draw(Grey(800, 600), {}, {.blend_heatmaps = true, .banner = "synthetic weights"});
  EXPECT_GT(CountChanged(image, {2, 580, 798, 598}), 0.99 * 796 * 18);
  EXPECT_EQ(CountChanged(image, {0, 0, 800, 540}), 0);
}

TEST(DrawOverlay, AnyTextAndAnyNumbersAreDrawnSomehow) {
  using Limits = std::numeric_limits<double>;
  constexpr double kInfinity = Limits::infinity(), kNan = Limits::quiet_NaN();
  const std::vector<float> nans(64 * 64, std::nanf(""));
  const OverlayPerson people[] = {
      {{-1e300, kNan, kInfinity, 1e9}, Point{kNan, -kInfinity}, "\xff\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80", nans},
      {{5, 5, 5, 5}, Point{5, 5}, "\xe2\x82", {}},
      {{50, 50, 5, 5}, {}, std::string("a\0b\n\x7f", 5), {}},
      {{0, 0, 10, 10}, {}, std::string(100'000, 'W'), std::span(nans).first(10)}};
  for (const auto& [width, height] : {std::pair(1, 1), {64, 48}, {2, 3000}, {3000, 2}, {65500, 1}}) {
    EXPECT_TRUE(DrawOverlay(Grey(width, height), people, {true, std::string(1000, '\xfe')}).has_value());
  }
}

TEST(DrawOverlay, IsTheSameFromEveryThread) {
  const OverlayPerson people[] = {Person({100, 100, 200, 220}, Point{400, 160}, "in frame 0.94"),
                                  Person({220, 100, 300, 220}, std::nullopt, "out of frame 0.12")};
  const auto expected = DrawOverlay(Grey(500, 400), people, {});
  ASSERT_TRUE(expected.has_value());
  std::vector<Result<std::vector<std::byte>>> drawn(4);
  std::vector<std::thread> threads;
  for (auto& result : drawn) threads.emplace_back([&] { result = DrawOverlay(Grey(500, 400), people, {}); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : drawn) EXPECT_EQ(result.value(), *expected);
}

std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Boxes and points of what a text names: one colour a group, labels inside the picture at every size.
TEST(DrawPlaces, GroupsHaveColoursAndPointsAreDiscs) {
  const OverlayPlace places[] = {{{100, 100, 300, 300}, std::nullopt, "", 0},
                                 {{500, 100, 700, 300}, std::nullopt, "", 0},
                                 {{}, Point{400, 450}, "", 1}};
  const auto png = DrawPlaces(Grey(800, 600), places, "");
  ASSERT_TRUE(png) << png.error().message;
  const Image image = DecodeImage(*png)->image;
  EXPECT_TRUE(IsLime(At(image, 100, 200)));
  EXPECT_TRUE(IsLime(At(image, 500, 200)));
  EXPECT_FALSE(IsLime(At(image, 400, 450)));
  EXPECT_NE(At(image, 400, 450)[0], kGround);
  EXPECT_EQ(CountChanged(image, {310, 310, 380, 600}), 0);
}

TEST(DrawPlaces, LabelsShowOnSmallAndLargePictures) {
  for (const auto& [width, height] : {std::pair{60, 40}, std::pair{3840, 2160}}) {
    const double w = width, h = height;
    std::vector<OverlayPlace> places = {{{0, 0, w, h}, std::nullopt, "everything", 0},
                                        {{0.4 * w, 0.4 * h, 0.6 * w, 0.6 * h}, std::nullopt, "\u732b 0.98", 1}};
    const auto bare = DrawPlaces(Grey(width, height), std::span(places).first(0), "");
    const auto png = DrawPlaces(Grey(width, height), places, "synthetic weights");
    ASSERT_TRUE(bare && png);
    const Image image = DecodeImage(*png)->image, ground = DecodeImage(*bare)->image;
    ASSERT_EQ(image.width, ground.width);
    EXPECT_GE(std::min(image.width, image.height), 400);
    EXPECT_GT(CountChanged(image, {0, 0, 1.0 * image.width, 1.0 * image.height}), 1000);
  }
}

// What a model writes is drawn as far as it goes.
TEST(DrawPlaces, OddPlacesAreDrawnInsideThePicture) {
  const OverlayPlace places[] = {{{700, 500, 100, 100}, std::nullopt, "turned round", 0},
                                 {{5000, 5000, 6000, 6000}, std::nullopt, "\xff\n", 1},
                                 {{800, 600, 800, 600}, std::nullopt, std::string(5000, 'x'), 2},
                                 {{}, Point{-50, 1e9}, "far away", 100}};
  const auto png = DrawPlaces(Grey(800, 600), places, "");
  ASSERT_TRUE(png) << png.error().message;
  EXPECT_EQ(DecodeImage(*png)->image.width, 800);
}

TEST(EncodeNpz, HoldsStoredArraysInNumpysForm) {
  const std::vector<float> heat = {1, 2, 3, 4, 5, 6}, inout = {0.5F};
  const NpzArray arrays[] = {{"heatmaps", {1, 2, 3}, heat}, {"inout", {1}, inout}};
  const std::string file = Text(EncodeNpz(arrays));
  EXPECT_TRUE(file.starts_with("PK\3\4"));
  EXPECT_THAT(file, testing::HasSubstr("heatmaps.npy"));
  EXPECT_THAT(file, testing::HasSubstr("inout.npy"));
  const size_t array = file.find("\x93NUMPY");
  ASSERT_NE(array, std::string::npos);
  const auto header = static_cast<size_t>(static_cast<unsigned char>(file[array + 8]));
  EXPECT_EQ((10 + header) % 64, 0U);
  EXPECT_THAT(file.substr(array + 10, header),
              testing::StartsWith("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3), }"));
  EXPECT_EQ(file[array + 9 + header], '\n');
  EXPECT_EQ(file.substr(array + 10 + header, 24), Text(AsBytes(heat)));
  EXPECT_THAT(file, testing::HasSubstr("'shape': (1,), }"));
  // The end record, without comment, is the end of the file.
  EXPECT_EQ(file.substr(file.size() - 22, 4), "PK\5\6");
}

TEST(EncodeNpz, TheSameArraysGiveTheSameBytes) {
  const std::vector<float> values(4096, 0.25F);
  const NpzArray arrays[] = {{"heatmaps", {1, 64, 64}, values}};
  const std::vector<std::byte> file = EncodeNpz(arrays);
  setenv("TZ", "America/Los_Angeles", 1);
  tzset();
  EXPECT_EQ(EncodeNpz(arrays), file);
  unsetenv("TZ");
  tzset();
}

TEST(EncodeNpz, EmptyAndScalarArraysWork) {
  const std::vector<float> one = {7};
  const NpzArray arrays[] = {{"none", {0, 64, 64}, {}}, {"scalar", {}, one}};
  const std::string file = Text(EncodeNpz(arrays));
  EXPECT_THAT(file, testing::HasSubstr("'shape': (0, 64, 64), }"));
  EXPECT_THAT(file, testing::HasSubstr("'shape': (), }"));
}

}  // namespace
}  // namespace sightline
