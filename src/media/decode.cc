#include <algorithm>
#include <cstring>
#include <new>

#include "media/codecs.h"

namespace sightline {
namespace {

bool HasAt(std::span<const std::byte> file, size_t offset, std::string_view text) {
  return file.size() >= offset + text.size() && std::memcmp(file.data() + offset, text.data(), text.size()) == 0;
}

// The file starts with the signature, or ends inside it.
bool StartsLike(std::span<const std::byte> file, std::string_view signature) {
  return HasAt(file, 0, signature.substr(0, file.size()));
}

bool IsText(std::span<const std::byte> file) {
  return std::all_of(file.begin(), file.end(), [](std::byte byte) {
    const auto c = std::to_integer<unsigned char>(byte);
    return c >= 0x20 ? c != 0x7f : c == '\t' || c == '\n' || c == '\r';
  });
}

bool Contains(std::span<const std::byte> file, std::string_view text) {
  const std::span<const std::byte> wanted = AsBytes(text);
  return std::search(file.begin(), file.end(), wanted.begin(), wanted.end()) != file.end();
}

// "a GIF picture": what bytes that are none of the accepted formats seem to be.
std::string_view LooksLike(std::span<const std::byte> file) {
  struct Signature {
    size_t offset;
    std::string_view bytes;
    std::string_view name;
  };
  static constexpr Signature kSignatures[] = {
      {0, "GIF8", "a GIF picture"},           {0, "BM", "a BMP picture"},
      {0, {"II*\0", 4}, "a TIFF picture"},    {0, {"MM\0*", 4}, "a TIFF picture"},
      {4, "ftypavi", "an AVIF picture"},      {4, "ftyphe", "a HEIC picture"},
      {4, "ftypmif1", "a HEIC picture"},      {4, "ftyp", "an MP4 video"},
      {0, {"\0\0\1\0", 4}, "an ICO picture"}, {0, "\xff\x0a", "a JPEG XL picture"},
      {4, "JXL \r\n", "a JPEG XL picture"},   {4, "jP  \r\n", "a JPEG 2000 picture"},
      {0, "8BPS", "a Photoshop picture"},     {0, "%PDF", "a PDF document"},
      {0, "PK\3\4", "a ZIP archive"},         {0, "\x1f\x8b", "a gzip archive"},
  };
  for (const Signature& signature : kSignatures) {
    if (HasAt(file, signature.offset, signature.bytes)) return signature.name;
  }
  constexpr size_t kSample = 1024;
  const auto start = file.first(std::min(file.size(), kSample));
  if (!IsText(start)) return "in no known picture format";
  if (Contains(start, "<svg")) return "an SVG picture";
  if (Contains(start, "<html") || Contains(start, "<!DOCTYPE html")) return "an HTML page";
  return "text";
}

Result<DecodedImage> DecodeAsStored(std::span<const std::byte> file, const DecodeOptions& options) {
  constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n";
  if (file.empty()) return Fail(Code::kImageEmpty, "the image is empty: 0 bytes came, a JPEG, PNG or WebP is expected");
  if (StartsLike(file, "\xff\xd8\xff")) return DecodeJpeg(file, options);
  if (StartsLike(file, kPng)) return DecodePng(file, options);
  if (StartsLike(file, "RIFF") && (file.size() <= 8 || StartsLike(file.subspan(8), "WEBP"))) {
    return DecodeWebp(file, options);
  }
  return Fail(Code::kUnsupportedMedia,
              "the file is " + std::string(LooksLike(file)) + "; JPEG, PNG and WebP are accepted");
}

void TurnUpright(DecodedImage& decoded, bool reference) {
  if (decoded.exif_orientation == 1) return;
  const std::string orientation =
      "exif_orientation: the file says orientation " + std::to_string(decoded.exif_orientation);
  if (reference) {
    decoded.warnings.push_back(orientation + ", which the reference programs ignore");
    return;
  }
  decoded.image = Upright(std::move(decoded.image), decoded.exif_orientation);
  decoded.warnings.push_back(orientation + "; the picture was turned upright, coordinates are in the upright picture");
}

}  // namespace

Status CheckSize(int64_t width, int64_t height, const DecodeOptions& options) {
  const std::string size = "the picture is " + std::to_string(width) + " x " + std::to_string(height) + " pixels, ";
  if (std::max(width, height) > options.max_side) {
    return Fail(Code::kImageTooLarge, size + "a side may have at most " + std::to_string(options.max_side));
  }
  if (width * height > options.max_pixels) {
    return Fail(Code::kImageTooLarge, size + "at most " + std::to_string(options.max_pixels) + " in all are accepted");
  }
  return {};
}

Image OnWhite(int width, int height, std::vector<uint8_t> rgba, bool* transparent) {
  *transparent = false;
  uint8_t* out = rgba.data();
  for (const uint8_t* in = rgba.data(), *end = in + rgba.size(); in != end; in += 4) {
    const int alpha = in[3];
    *transparent |= alpha != 255;
    for (int c = 0; c < 3; ++c) *out++ = static_cast<uint8_t>((in[c] * alpha + 255 * (255 - alpha) + 127) / 255);
  }
  rgba.resize(rgba.size() / 4 * 3);
  return {width, height, std::move(rgba)};
}

Result<DecodedImage> DecodeImage(std::span<const std::byte> file, const DecodeOptions& options) try {
  SIGHTLINE_ASSIGN_OR_RETURN(DecodedImage decoded, DecodeAsStored(file, options));
  TurnUpright(decoded, options.reference);
  return decoded;
} catch (const std::bad_alloc&) {
  return Fail(Code::kOutOfMemory, "there is not enough memory to decode the picture");
}

}  // namespace sightline
