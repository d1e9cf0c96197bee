#include <algorithm>
#include <cstring>

#include "media/codecs.h"

namespace sightline {
namespace {

// Reads TIFF numbers in the byte order the block declares. Past the end everything is 0.
class TiffReader {
 public:
  TiffReader(std::span<const std::byte> bytes, bool little_endian) : bytes_(bytes), little_endian_(little_endian) {}

  uint32_t U16(size_t offset) const { return Number(offset, 2); }
  uint32_t U32(size_t offset) const { return Number(offset, 4); }

 private:
  uint32_t Number(size_t offset, size_t length) const {
    if (offset > bytes_.size() || length > bytes_.size() - offset) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < length; ++i) {
      const size_t at = little_endian_ ? offset + length - 1 - i : offset + i;
      value = value << 8 | std::to_integer<uint32_t>(bytes_[at]);
    }
    return value;
  }

  std::span<const std::byte> bytes_;
  bool little_endian_;
};

bool StartsWith(std::span<const std::byte> bytes, std::string_view prefix) {
  return bytes.size() >= prefix.size() && std::memcmp(bytes.data(), prefix.data(), prefix.size()) == 0;
}

}  // namespace

int ExifOrientation(std::span<const std::byte> exif) {
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  constexpr size_t kEntryBytes = 12;
  constexpr uint32_t kOrientationTag = 274;
  constexpr uint32_t kShortType = 3;
  if (StartsWith(exif, kPrefix)) exif = exif.subspan(kPrefix.size());
  const bool little_endian = StartsWith(exif, std::string_view("II*\0", 4));
  if (!little_endian && !StartsWith(exif, std::string_view("MM\0*", 4))) return 1;

  const TiffReader tiff(exif, little_endian);
  const size_t directory = tiff.U32(4);
  const size_t entries = tiff.U16(directory);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (tiff.U16(entry) != kOrientationTag || tiff.U16(entry + 2) != kShortType) continue;
    const uint32_t value = tiff.U16(entry + 8);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Image Upright(Image image, int orientation) {
  if (orientation == 1) return image;
  // EXIF 2.32, tag 274: where the stored row 0 and column 0 belong in the upright picture.
  const bool transposed = orientation >= 5;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;

  Image upright{transposed ? image.height : image.width, transposed ? image.width : image.height, {}};
  upright.rgb.resize(image.rgb.size());
  const std::ptrdiff_t width = image.width, height = image.height;
  const std::ptrdiff_t step_x = from_right ? -1 : 1, step_y = from_bottom ? -1 : 1;
  // Upright (0, 0) is stored at (left, top); a step right in the upright picture is `right` stored pixels, a step down
  // is `down`.
  const std::ptrdiff_t left = from_right ? width - 1 : 0, top = from_bottom ? height - 1 : 0;
  const std::ptrdiff_t right = transposed ? step_y * width : step_x;
  const std::ptrdiff_t down = transposed ? step_x : step_y * width;
  // Tiles keep both the rows read and the rows written in cache when the two run across each other.
  constexpr int kTile = 64;
  for (int tile_y = 0; tile_y < upright.height; tile_y += kTile) {
    for (int tile_x = 0; tile_x < upright.width; tile_x += kTile) {
      for (int y = tile_y; y < std::min(tile_y + kTile, upright.height); ++y) {
        uint8_t* out = upright.rgb.data() + (static_cast<std::ptrdiff_t>(y) * upright.width + tile_x) * 3;
        std::ptrdiff_t stored = top * width + left + y * down + tile_x * right;
        for (int x = tile_x; x < std::min(tile_x + kTile, upright.width); ++x, stored += right) {
          out = std::copy_n(image.rgb.data() + stored * 3, 3, out);
        }
      }
    }
  }
  return upright;
}

}  // namespace sightline
