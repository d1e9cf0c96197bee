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

// Overwrites width and height in the frame header of a JPEG.
std::vector<std::byte> WithSize(std::vector<std::byte> jpeg, std::byte frame_marker, uint16_t width, uint16_t height) {
  const std::array<std::byte, 2> marker = {std::byte{0xff}, frame_marker};
  const auto frame = std::search(jpeg.begin(), jpeg.end(), marker.begin(), marker.end());
  for (const auto& [offset, value] : {std::pair(5, height), {7, width}}) {
    frame[offset] = static_cast<std::byte>(value >> 8);
    frame[offset + 1] = static_cast<std::byte>(value);
  }
  return jpeg;
}

// A header may claim what it likes within the limits: memory is taken only as the pixels come.
TEST(DecodeImage, SmallFilesThatClaimManyPixelsTakeLittleMemory) {
  const std::vector<std::byte> files[] = {WithSize(Awkward("bomb_sof.jpg"), std::byte{0xc0}, 8192, 8192),
                                          WithSize(Awkward("progressive.jpg"), std::byte{0xc2}, 8192, 8192)};
  for (const auto& file : files) {
    const int64_t before = PeakMemory(true);
    const auto decoded = DecodeImage(file);
    ASSERT_FALSE(decoded.has_value());
    EXPECT_EQ(decoded.error().code, Code::kImageTruncated) << decoded.error().message;
    EXPECT_LT(PeakMemory(false) - before, 32 << 20);
  }
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

std::vector<std::byte> Bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

void Append(std::vector<std::byte>& bytes, const std::vector<std::byte>& more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

// 8 x 8 pixels, one block a component, every scan holds one component: "no difference, end of block" and padding.
std::vector<std::byte> JpegWithScans(int scans) {
  std::vector<std::byte> file = Bytes({0xff, 0xd8, 0xff, 0xdb, 0, 67, 0});
  file.insert(file.end(), 64, std::byte{1});
  Append(file, Bytes({0xff, 0xc0, 0, 17, 8, 0, 8, 0, 8, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0}));
  for (int table : {0x00, 0x10}) {
    Append(file, Bytes({0xff, 0xc4, 0, 20, table, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  }
  for (int i = 0; i < scans; ++i) Append(file, Bytes({0xff, 0xda, 0, 8, 1, i % 3 + 1, 0, 0, 63, 0, 0x3f}));
  Append(file, Bytes({0xff, 0xd9}));
  return file;
}

TEST(DecodeImage, TheNumberOfScansIsBounded) {
  const auto normal = DecodeImage(JpegWithScans(3));
  ASSERT_TRUE(normal.has_value()) << normal.error().message;
  EXPECT_THAT(normal->image.rgb, testing::Each(128));
  EXPECT_TRUE(DecodeImage(JpegWithScans(99)).has_value());
  const auto bomb = DecodeImage(JpegWithScans(10'000));
  ASSERT_FALSE(bomb.has_value());
  EXPECT_EQ(bomb.error().code, Code::kImageUndecodable);
  EXPECT_THAT(bomb.error().message, HasSubstr("scans"));
}

// Marks that differ from the standard and change no pixel: cameras write them, every viewer opens them.
TEST(DecodeImage, HarmlessFaultsOfJpegsAreForgiven) {
  std::vector<std::byte> file = JpegWithScans(3);
  const auto expected = DecodeImage(file);
  const std::vector<std::byte> junk = Bytes({0, 0, 0, 0});
  file.insert(file.end() - 2, junk.begin(), junk.end());  // before the end marker
  *(file.end() - 9) = std::byte{0};                       // last coefficient of a scan that holds all: 63
  const auto decoded = DecodeImage(file);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  EXPECT_EQ(decoded->image.rgb, expected->image.rgb);
}

TEST(DecodeImage, PngTransparencyWithAWrongChecksumIsAnError) {
  std::vector<std::byte> file = Awkward("rgb_trns_key.png");
  const auto type = AsBytes(std::string_view("tRNS"));
  const auto chunk = std::search(file.begin(), file.end(), type.begin(), type.end());
  chunk[5] ^= std::byte{1};
  const auto decoded = DecodeImage(file);
  ASSERT_FALSE(decoded.has_value());
  EXPECT_EQ(decoded.error().code, Code::kImageUndecodable);
}

int OrientationWith(const std::vector<std::byte>& tiff) {
  std::vector<std::byte> file = JpegWithScans(3);
  const auto size = static_cast<int>(tiff.size()) + 8;
  std::vector<std::byte> segment = Bytes({0xff, 0xe1, size >> 8, size & 255, 'E', 'x', 'i', 'f', 0, 0});
  Append(segment, tiff);
  file.insert(file.begin() + 2, segment.begin(), segment.end());
  const auto decoded = DecodeImage(file);
  EXPECT_TRUE(decoded.has_value()) << decoded.error().message;
  return decoded->exif_orientation;
}

TEST(DecodeImage, ExifIsReadInBothByteOrdersAndIgnoredWhenDamaged) {
  const auto little = Bytes({'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0});
  const auto big = Bytes(
      {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 2, 1, 0, 0, 3, 0, 0, 0, 1, 0, 9, 0, 0, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 8, 0, 0});
  EXPECT_EQ(OrientationWith(little), 6);
  EXPECT_EQ(OrientationWith(big), 8);
  for (size_t length = 0; length + 2 < little.size(); ++length) {
    const int orientation = OrientationWith({little.begin(), little.begin() + static_cast<std::ptrdiff_t>(length)});
    EXPECT_EQ(orientation, length >= 20 ? 6 : 1) << length;
  }
  for (size_t i = 0; i < big.size(); ++i) {
    for (int value : {0x00, 0x7f, 0xff}) {
      std::vector<std::byte> damaged = big;
      damaged[i] = static_cast<std::byte>(value);
      const int orientation = OrientationWith(damaged);
      EXPECT_TRUE(orientation >= 1 && orientation <= 8);
    }
  }
}

// A first frame that does not fill the canvas lies on white.
TEST(DecodeImage, TheFirstFrameOfAnAnimationHasItsPlace) {
  std::vector<std::byte> file = Awkward("animated.webp");
  const auto find = [&file](std::string_view type) {
    const auto wanted = AsBytes(type);
    return std::search(file.begin(), file.end(), wanted.begin(), wanted.end());
  };
  find("VP8X")[12] = std::byte{105};  // width - 1
  find("VP8X")[15] = std::byte{73};   // height - 1
  find("ANMF")[8] = std::byte{2};     // x / 2
  find("ANMF")[11] = std::byte{3};    // y / 2
  const auto decoded = DecodeImage(file);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  const Image& image = decoded->image;
  ASSERT_EQ(image.width, 106);
  ASSERT_EQ(image.height, 74);
  const auto pixel = [&image](size_t x, size_t y) { return std::span(image.rgb).subspan((y * 106 + x) * 3, 3); };
  EXPECT_THAT(pixel(0, 0), ElementsAre(255, 255, 255));
  EXPECT_THAT(pixel(3, 6), ElementsAre(255, 255, 255));
  EXPECT_THAT(pixel(4, 6), ElementsAre(220, 30, 30));
  EXPECT_THAT(pixel(105, 73), ElementsAre(255, 255, 255));
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
