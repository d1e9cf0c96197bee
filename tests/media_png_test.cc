// Every PNG colour type and bit depth, with and without interlacing and transparency, against pixels worked out here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "media/media.h"

namespace sightline {
namespace {

using ::testing::Each;

using Bytes = std::vector<uint8_t>;

void Append32(Bytes& out, uint32_t value) {
  for (int shift : {24, 16, 8, 0}) out.push_back(static_cast<uint8_t>(value >> shift));
}

uint32_t Crc32(std::span<const uint8_t> bytes) {
  uint32_t crc = ~0U;
  for (uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

uint32_t Adler32(std::span<const uint8_t> bytes) {
  uint32_t a = 1, b = 0;
  for (uint8_t byte : bytes) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

void AppendChunk(Bytes& file, std::string_view type, const Bytes& data) {
  Append32(file, static_cast<uint32_t>(data.size()));
  const size_t begin = file.size();
  file.insert(file.end(), type.begin(), type.end());
  file.insert(file.end(), data.begin(), data.end());
  Append32(file, Crc32(std::span(file).subspan(begin)));
}

// zlib with one stored block.
Bytes Stored(const Bytes& data) {
  const auto low = static_cast<uint8_t>(data.size() & 255), high = static_cast<uint8_t>(data.size() >> 8);
  Bytes out = {0x78, 0x01, 0x01, low, high, static_cast<uint8_t>(~low), static_cast<uint8_t>(~high)};
  out.insert(out.end(), data.begin(), data.end());
  Append32(out, Adler32(data));
  return out;
}

constexpr uint32_t kWidth = 13, kHeight = 9;

struct Kind {
  int colour_type;
  int depth;
  bool interlaced;
  int channels() const { return std::array{1, 0, 3, 1, 2, 0, 4}[static_cast<size_t>(colour_type)]; }
};

// Any values, different in neighbouring pixels and channels; every palette index is in the palette.
uint32_t Sample(const Kind& kind, uint32_t x, uint32_t y, int channel) {
  const uint32_t value = (x * 2654435761U) ^ (y * 40503U * 65536U) ^ (static_cast<uint32_t>(channel) * 97531U * 8191U);
  return (value >> 9) & ((1U << kind.depth) - 1);
}

Bytes PackRow(const Kind& kind, uint32_t y, uint32_t first_x, uint32_t step_x) {
  Bytes row = {0};  // filter: none
  uint32_t bits = 0;
  int filled = 0;
  for (uint32_t x = first_x; x < kWidth; x += step_x) {
    for (int c = 0; c < kind.channels(); ++c) {
      bits = bits << kind.depth | Sample(kind, x, y, c);
      for (filled += kind.depth; filled >= 8; filled -= 8) row.push_back(static_cast<uint8_t>(bits >> (filled - 8)));
    }
  }
  if (filled > 0) row.push_back(static_cast<uint8_t>(bits << (8 - filled)));
  return row;
}

Bytes PackRows(const Kind& kind) {
  struct Pass {
    uint32_t x, y, step_x, step_y;
  };
  const std::vector<Pass> whole = {{0, 0, 1, 1}};
  const std::vector<Pass> adam7 = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                   {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
  Bytes out;
  for (const Pass& pass : kind.interlaced ? adam7 : whole) {
    for (uint32_t y = pass.y; y < kHeight; y += pass.step_y) {
      const Bytes row = PackRow(kind, y, pass.x, pass.step_x);
      out.insert(out.end(), row.begin(), row.end());
    }
  }
  return out;
}

uint8_t PaletteColour(uint32_t index, int channel) {
  return static_cast<uint8_t>(index * 7 + static_cast<uint32_t>(channel) * 50 + 3);
}
uint8_t PaletteAlpha(uint32_t index) { return static_cast<uint8_t>(index * 29); }

std::vector<std::byte> WritePng(const Kind& kind, const Bytes& transparency) {
  Bytes file = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  Bytes header;
  Append32(header, kWidth);
  Append32(header, kHeight);
  for (int value : {kind.depth, kind.colour_type, 0, 0, kind.interlaced ? 1 : 0}) {
    header.push_back(static_cast<uint8_t>(value));
  }
  AppendChunk(file, "IHDR", header);
  if (kind.colour_type == 3) {
    Bytes palette;
    for (uint32_t i = 0; i < (1U << kind.depth); ++i) {
      for (int c = 0; c < 3; ++c) palette.push_back(PaletteColour(i, c));
    }
    AppendChunk(file, "PLTE", palette);
  }
  if (!transparency.empty()) AppendChunk(file, "tRNS", transparency);
  AppendChunk(file, "IDAT", Stored(PackRows(kind)));
  AppendChunk(file, "IEND", {});
  const auto bytes = std::as_bytes(std::span(file));
  return {bytes.begin(), bytes.end()};
}

uint8_t To8(uint32_t sample, int depth) {
  return static_cast<uint8_t>(depth == 16 ? sample >> 8 : sample * 255 / ((1U << depth) - 1));
}

uint8_t OnWhite(uint8_t colour, uint8_t alpha) {
  return static_cast<uint8_t>((colour * alpha + 255 * (255 - alpha) + 127) / 255);
}

Image Expected(const Kind& kind, bool transparent) {
  Image image{kWidth, kHeight, {}};
  for (uint32_t y = 0; y < kHeight; ++y) {
    for (uint32_t x = 0; x < kWidth; ++x) {
      const bool grey = kind.colour_type == 0 || kind.colour_type == 4;
      uint8_t alpha = 255;
      if (kind.colour_type >= 4) alpha = To8(Sample(kind, x, y, kind.channels() - 1), kind.depth);
      if (kind.colour_type == 3 && transparent) alpha = PaletteAlpha(Sample(kind, x, y, 0));
      if (kind.colour_type < 3 && transparent) {
        bool key = true;  // the colour of the first pixel
        for (int c = 0; c < kind.channels(); ++c) key &= Sample(kind, x, y, c) == Sample(kind, 0, 0, c);
        if (key) alpha = 0;
      }
      for (int c = 0; c < 3; ++c) {
        const uint32_t sample = Sample(kind, x, y, grey || kind.colour_type == 3 ? 0 : c);
        const uint8_t colour = kind.colour_type == 3 ? PaletteColour(sample, c) : To8(sample, kind.depth);
        image.rgb.push_back(OnWhite(colour, alpha));
      }
    }
  }
  return image;
}

Bytes Transparency(const Kind& kind) {
  Bytes out;
  if (kind.colour_type == 3) {
    for (uint32_t i = 0; i < (1U << kind.depth); ++i) out.push_back(PaletteAlpha(i));
    return out;
  }
  for (int c = 0; c < kind.channels(); ++c) {
    const uint32_t sample = Sample(kind, 0, 0, c);
    out.push_back(static_cast<uint8_t>(sample >> 8));
    out.push_back(static_cast<uint8_t>(sample));
  }
  return out;
}

std::vector<Kind> AllKinds() {
  std::vector<Kind> kinds;
  const std::array<std::vector<int>, 7> depths = {{{1, 2, 4, 8, 16}, {}, {8, 16}, {1, 2, 4, 8}, {8, 16}, {}, {8, 16}}};
  for (int type = 0; type < 7; ++type) {
    for (int depth : depths[static_cast<size_t>(type)]) {
      for (bool interlaced : {false, true}) kinds.push_back({type, depth, interlaced});
    }
  }
  return kinds;
}

TEST(Png, EveryColourTypeAndDepth) {
  for (const Kind& kind : AllKinds()) {
    SCOPED_TRACE(testing::Message() << "colour type " << kind.colour_type << ", depth " << kind.depth
                                    << (kind.interlaced ? ", interlaced" : ""));
    for (bool transparent : {false, true}) {
      if (transparent && kind.colour_type >= 4) continue;
      const auto decoded = DecodeImage(WritePng(kind, transparent ? Transparency(kind) : Bytes{}));
      ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
      const Image expected = Expected(kind, transparent);
      EXPECT_EQ(decoded->image.width, expected.width);
      EXPECT_EQ(decoded->image.height, expected.height);
      EXPECT_EQ(decoded->image.rgb, expected.rgb) << (transparent ? "with transparency" : "opaque");
    }
  }
}

TEST(Png, DepthsThatDoNotExistAreRefused) {
  for (const Kind& kind : {Kind{2, 4, false}, Kind{3, 16, false}, Kind{6, 1, true}, Kind{0, 3, false}}) {
    const auto decoded = DecodeImage(WritePng(kind, {}));
    ASSERT_FALSE(decoded.has_value());
    EXPECT_EQ(decoded.error().code, Code::kImageUndecodable);
  }
}

TEST(EncodePng, ComesBackAsItWas) {
  Image image{31, 17, Bytes(31 * 17 * 3)};
  for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = static_cast<uint8_t>(i * i + 7 * i);
  const std::vector<std::byte> file = EncodePng(image);
  const auto decoded = DecodeImage(file);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->format, "png");
  EXPECT_EQ(decoded->image.width, 31);
  EXPECT_EQ(decoded->image.rgb, image.rgb);
  EXPECT_THAT(decoded->warnings, testing::IsEmpty());
  EXPECT_EQ(EncodePng(image), file);
}

TEST(EncodeGreyPng, ComesBackAsItWas) {
  Bytes grey(64 * 64);
  for (size_t i = 0; i < grey.size(); ++i) grey[i] = static_cast<uint8_t>(i / 64 + i % 64);
  const auto decoded = DecodeImage(EncodeGreyPng(grey, 64, 64));
  ASSERT_TRUE(decoded.has_value());
  for (size_t i = 0; i < grey.size(); ++i) ASSERT_THAT(std::span(decoded->image.rgb).subspan(3 * i, 3), Each(grey[i]));
}

}  // namespace
}  // namespace sightline
