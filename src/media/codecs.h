// What the picture readers of this folder share: one function per format, orientation, alpha.
#pragma once

#include "media/media.h"

namespace sightline {

// Each reads one format into pixels as stored; DecodeImage turns them upright. `file` begins with the format's
// signature, or is a part of it.
Result<DecodedImage> DecodeJpeg(std::span<const std::byte> file, const DecodeOptions& options);
Result<DecodedImage> DecodePng(std::span<const std::byte> file, const DecodeOptions& options);
Result<DecodedImage> DecodeWebp(std::span<const std::byte> file, const DecodeOptions& options);

// kImageTooLarge when the size a header announces is over the limits.
Status CheckSize(int64_t width, int64_t height, const DecodeOptions& options);

// The orientation of an EXIF block (TIFF 6.0, tag 274), with or without "Exif\0\0" before it; 1 when it is absent,
// damaged or not 1..8.
int ExifOrientation(std::span<const std::byte> exif);

// Turns a picture stored with an EXIF orientation of 1..8 upright.
Image Upright(Image image, int orientation);

// RGBA on white: (c * a + 255 * (255 - a) + 127) / 255. `transparent` tells whether any alpha was below 255.
Image OnWhite(int width, int height, std::vector<uint8_t> rgba, bool* transparent);

}  // namespace sightline
