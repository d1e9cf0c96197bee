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

  const std::ptrdiff_t stored_width = image.width, stored_height = image.height;
  const int width = transposed ? image.height : image.width, height = transposed ? image.width : image.height;
  // Upright (0, 0) is stored at `origin`; a step right in the upright picture is `right` stored pixels, a step down is
  // `down`.
  const std::ptrdiff_t step_x = from_right ? -1 : 1, step_y = from_bottom ? -stored_width : stored_width;
  const std::ptrdiff_t right = transposed ? step_y : step_x, down = transposed ? step_x : step_y;
  const std::ptrdiff_t origin =
      (from_right ? stored_width - 1 : 0) + (from_bottom ? (stored_height - 1) * stored_width : 0);

  Image upright{width, height, std::vector<uint8_t>(image.rgb.size())};
  const uint8_t* from = image.rgb.data();
  uint8_t* to = upright.rgb.data();
  // Tiles keep both the rows read and the rows written in cache when the two run across each other.
  constexpr int kTile = 64;
  for (int top = 0; top < height; top += kTile) {
    for (int left = 0; left < width; left += kTile) {
      const int end_x = std::min(left + kTile, width), end_y = std::min(top + kTile, height);
      for (int y = top; y < end_y; ++y) {
        std::ptrdiff_t in = 3 * (origin + y * down + left * right);
        std::ptrdiff_t out = 3 * (static_cast<std::ptrdiff_t>(y) * width + left);
        for (int x = left; x < end_x; ++x, in += 3 * right, out += 3) {
          to[out] = from[in];
          to[out + 1] = from[in + 1];
          to[out + 2] = from[in + 2];
        }
      }
    }
  }
  return upright;
}

}  // namespace sightline
