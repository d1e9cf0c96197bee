// Pictures in: every row of awkward/manifest.json, every truncation and many flipped bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "media/media.h"

namespace sightline {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr size_t kFileLimit = 1 << 26;

std::vector<std::byte> ReadData(const std::string& name) {
  auto bytes = ReadFile(std::filesystem::path(SIGHTLINE_TEST_DATA) / name, kFileLimit);
  EXPECT_TRUE(bytes.has_value()) << name;
  return std::move(bytes).value_or(std::vector<std::byte>{});
}

std::vector<std::byte> Awkward(const std::string& name) { return ReadData("images/awkward/" + name); }

nlohmann::json Manifest() {
  std::ifstream file(SIGHTLINE_TEST_DATA "/images/awkward/manifest.json");
  return nlohmann::json::parse(file)["files"];
}

std::array<double, 3> MeanRgb(const Image& image) {
  std::array<double, 3> sum = {};
  for (size_t i = 0; i < image.rgb.size(); ++i) sum[i % 3] += image.rgb[i];
  for (double& channel : sum) channel /= static_cast<double>(image.rgb.size()) / 3;
  return sum;
}

void ExpectPixels(const nlohmann::json& row, const Image& image) {
  const std::array<double, 3> mean = MeanRgb(image);
  const double tolerance = row.value("mean_tolerance", 0.01);
  for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(mean[c], row["mean_rgb"][c].get<double>(), tolerance) << "channel " << c;
  char digest[17];
  std::snprintf(digest, sizeof digest, "%016llx", static_cast<unsigned long long>(Fnv1a64(AsBytes(image.rgb))));
  EXPECT_EQ(digest, row["fnv1a64"].get<std::string>());
}

class AwkwardFile : public testing::TestWithParam<std::string> {};

TEST_P(AwkwardFile, ComesOutAsTheManifestSays) {
  const nlohmann::json row = Manifest()[GetParam()];
  const auto decoded = DecodeImage(Awkward(GetParam()));
  if (row.contains("may_accept") && decoded.has_value()) {
    EXPECT_THAT(decoded->image.rgb, ElementsAre(255, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0));
    return;
  }
  if (row["expect"] == "reject") {
    ASSERT_FALSE(decoded.has_value());
    EXPECT_EQ(Describe(decoded.error().code).name, row["error"].get<std::string>()) << decoded.error().message;
    std::string message = decoded.error().message;
    std::ranges::transform(message, message.begin(), [](unsigned char c) { return std::tolower(c); });
    EXPECT_THAT(message, HasSubstr(row.value("detected", "")));
    return;
  }
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  EXPECT_EQ(decoded->image.width, row["width"]);
  EXPECT_EQ(decoded->image.height, row["height"]);
  EXPECT_EQ(decoded->exif_orientation, row.value("exif_orientation", GetParam() == "exif_6.png" ? 6 : 1));
  if (row.contains("warning")) {
    EXPECT_THAT(decoded->warnings, Contains(StartsWith(row["warning"].get<std::string>() + ": ")));
  }
  ExpectPixels(row, decoded->image);
}

std::vector<std::string> PictureFiles() {
  std::vector<std::string> names;
  const nlohmann::json manifest = Manifest();
  for (const auto& [name, row] : manifest.items()) {
    if (row.value("form", "file") == "file") names.push_back(name);
  }
  return names;
}
std::string TestName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Manifest, AwkwardFile, testing::ValuesIn(PictureFiles()), TestName);

// Peak resident memory in bytes since the last call with `reset`.
int64_t PeakMemory(bool reset) {
  if (reset) std::ofstream("/proc/self/clear_refs") << "5";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

class Bomb : public testing::TestWithParam<std::string> {};

TEST_P(Bomb, TakesLittleMemory) {
  const std::vector<std::byte> file = Awkward(GetParam());
  const int64_t before = PeakMemory(true);
  (void)DecodeImage(file);
  EXPECT_LT(PeakMemory(false) - before, 32 << 20);
}
INSTANTIATE_TEST_SUITE_P(Manifest, Bomb,
                         testing::Values("bomb_60000.png", "bomb_real_30000.png", "bomb_sof.jpg", "bomb_ztxt.png",
                                         "bomb_extra_idat.png"),
                         TestName);

// A header may claim what it likes within the limits: memory is taken only as the pixels come.
TEST(DecodeImage, SmallFilesThatClaimManyPixelsTakeLittleMemory) {
  std::vector<std::byte> jpeg = Awkward("bomb_sof.jpg");
  const std::array<std::byte, 5> size = {std::byte{8}, std::byte{0x20}, std::byte{0}, std::byte{0x20}, std::byte{0}};
  const std::array<std::byte, 2> start_of_frame = {std::byte{0xff}, std::byte{0xc0}};
  const auto header = std::ranges::search(jpeg, start_of_frame);
  std::ranges::copy(size, header.begin() + 4);
  const int64_t before = PeakMemory(true);
  const auto decoded = DecodeImage(jpeg);
  ASSERT_FALSE(decoded.has_value());
  EXPECT_EQ(decoded.error().code, Code::kImageTruncated);
  EXPECT_LT(PeakMemory(false) - before, 32 << 20);
}

TEST(DecodeImage, LimitsAreCheckedOnTheHeader) {
  const std::vector<std::byte> file = Awkward("size_500x1.png");
  EXPECT_TRUE(DecodeImage(file, {.max_pixels = 500, .max_side = 500}).has_value());
  for (const DecodeOptions& options : {DecodeOptions{.max_pixels = 499}, DecodeOptions{.max_side = 499}}) {
    const auto decoded = DecodeImage(file, options);
    ASSERT_FALSE(decoded.has_value());
    EXPECT_EQ(decoded.error().code, Code::kImageTooLarge);
    EXPECT_THAT(decoded.error().message, HasSubstr("500 x 1"));
    EXPECT_THAT(decoded.error().message, HasSubstr("499"));
  }
}

TEST(DecodeImage, OrientationIsNamed) {
  const auto decoded = DecodeImage(Awkward("exif_6.jpg"));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_THAT(decoded->warnings, Contains(StartsWith("exif_orientation: ")));
  EXPECT_THAT(DecodeImage(Awkward("exif_1.jpg"))->warnings, IsEmpty());
}

TEST(DecodeImage, TransparencyIsNamed) {
  EXPECT_THAT(DecodeImage(Awkward("rgba_hidden.png"))->warnings, Contains(StartsWith("alpha: ")));
}

TEST(DecodeImage, ReferenceIgnoresOrientation) {
  const auto decoded = DecodeImage(Awkward("exif_6.jpg"), {.reference = true});
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->image.width, 64);
  EXPECT_EQ(decoded->image.height, 96);
  EXPECT_EQ(decoded->exif_orientation, 6);
}

TEST(DecodeImage, ReferenceDropsAlpha) {
  const auto png = DecodeImage(Awkward("rgba_hidden.png"), {.reference = true});
  ASSERT_TRUE(png.has_value());
  EXPECT_THAT(std::vector<uint8_t>(png->image.rgb.begin(), png->image.rgb.begin() + 3), ElementsAre(255, 0, 0));
  const auto webp = DecodeImage(Awkward("alpha.webp"), {.reference = true});
  ASSERT_TRUE(webp.has_value());
  EXPECT_EQ(webp->image.rgb, DecodeImage(Awkward("lossless.webp"))->image.rgb);
}

TEST(DecodeImage, MessagesSayWhatCameAndWhatIsAccepted) {
  EXPECT_EQ(DecodeImage(Awkward("anim.gif")).error().message,
            "the file is a GIF picture; JPEG, PNG and WebP are accepted");
  EXPECT_EQ(DecodeImage(Awkward("text.jpg")).error().message, "the file is text; JPEG, PNG and WebP are accepted");
}

class Truncation : public testing::TestWithParam<std::string> {};

// How many bytes of a file must be there for its picture to be complete. A PNG's end chunk holds no pixels.
size_t NeededBytes(std::span<const std::byte> file, const std::string& name) {
  constexpr size_t kEndChunk = 12;
  return name.ends_with(".png") ? file.size() - kEndChunk : file.size();
}

TEST_P(Truncation, IsAnErrorAtEveryLength) {
  const std::vector<std::byte> file = Awkward(GetParam());
  const size_t needed = NeededBytes(file, GetParam());
  for (size_t length = 1; length < file.size(); ++length) {
    // A copy of its own size lets the sanitizer see reads past the end.
    const std::vector<std::byte> part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(length));
    const auto decoded = DecodeImage(part);
    ASSERT_EQ(decoded.has_value(), length >= needed) << length << " of " << file.size() << " bytes";
    if (decoded.has_value()) continue;
    ASSERT_EQ(decoded.error().code, Code::kImageTruncated) << length << " bytes: " << decoded.error().message;
  }
}

TEST_P(Truncation, BytesAfterTheEndAreIgnored) {
  std::vector<std::byte> file = Awkward(GetParam());
  const auto expected = DecodeImage(file);
  ASSERT_TRUE(expected.has_value());
  file.insert(file.end(), 1000, std::byte{0x5a});
  const auto decoded = DecodeImage(file);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  EXPECT_EQ(decoded->image.rgb, expected->image.rgb);
}

TEST_P(Truncation, FlippedBytesNeverCrash) {
  const std::vector<std::byte> file = Awkward(GetParam());
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::byte> damaged = file;
    damaged[random() % damaged.size()] ^= static_cast<std::byte>(1 + random() % 255);
    const auto decoded = DecodeImage(damaged, {.max_pixels = 1 << 20});
    if (!decoded) continue;
    const Image& image = decoded->image;
    ASSERT_EQ(image.rgb.size(), static_cast<size_t>(image.width) * static_cast<size_t>(image.height) * 3);
  }
}
INSTANTIATE_TEST_SUITE_P(Formats, Truncation,
                         testing::Values("exif_6.jpg", "progressive.jpg", "gray.jpg", "restart.jpg", "cmyk_adobe.jpg",
                                         "size_1x1.png", "interlaced.png", "palette_trns.png", "exif_6.png",
                                         "rgb16.png", "gray1.png", "lossy.webp", "lossless.webp", "alpha.webp",
                                         "animated.webp"),
                         TestName);

TEST(DecodeImage, PngCutBetweenItsDataChunksIsTruncated) {
  const std::vector<std::byte> file = Awkward("many_idat.png");
  constexpr size_t kHeader = 33, kChunk = 13, kTrailer = 4 * kChunk + 12;  // the checksum of all, the end
  for (size_t length = kHeader; length + kChunk + kTrailer <= file.size(); length += 7 * kChunk) {
    const auto decoded = DecodeImage(std::span(file).first(length));
    ASSERT_FALSE(decoded.has_value()) << length;
    ASSERT_EQ(decoded.error().code, Code::kImageTruncated) << decoded.error().message;
  }
}

}  // namespace
}  // namespace sightline
