// media: pictures in and pictures out. Decodes JPEG, PNG and WebP by content into upright RGB, resizes exactly as the
// reference programs do, draws overlays, writes PNG and npz. Pure functions; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/base.h"

namespace sightline {

// 8-bit RGB, row by row, no padding: rgb[(y * width + x) * 3 + channel].
struct Image {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> rgb;
};

// Corners in pixels of the upright picture (or normalised where a comment says so); x2 and y2 are exclusive edges.
struct Box {
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
};

struct Point {
  double x = 0, y = 0;
};

// ---------------------------------------------------------------------------------------------------------------------
// Pictures in

struct DecodeOptions {
  // What the reference programs do: drop alpha instead of compositing on white, ignore EXIF orientation.
  bool reference = false;
  int64_t max_pixels = 100'000'000;  // decided from the header, before pixel memory is taken
  int max_side = 65'500;
};

struct DecodedImage {
  Image image;                        // upright unless DecodeOptions::reference
  std::string format;                 // "jpeg", "png", "webp"
  int exif_orientation = 1;           // as stored in the file, 1..8; 1 when absent or undefined
  std::vector<std::string> warnings;  // "exif_orientation: ...", "animated: ...", "alpha: ..." : code, colon, sentence
};

// Errors: kImageEmpty, kImageTruncated, kImageUndecodable, kImageTooLarge, kUnsupportedMedia (names what the bytes look
// like: "gif", "heic", "text"). Rules of colour and alpha: docs/http-api.md, "Pictures".
Result<DecodedImage> DecodeImage(std::span<const std::byte> file, const DecodeOptions& options = {});

// ---------------------------------------------------------------------------------------------------------------------
// Exact resizes for Gaze-LLE. The aspect ratio is not kept. Output is [3, size, size] float32, normalised with the
// ImageNet mean and deviation.

// Profile "upstream": scale to [0,1], normalise, antialiased bilinear in float32, coordinates and weights in float32 as
// torch does (torchvision 0.20 Resize on a tensor; ATen UpSampleBilinear2dAA).
std::vector<float> ResizeUpstream(const Image& image, int size);

// Pillow BILINEAR in 8 bit, horizontal pass first (Pillow up to 12.3: src/libImaging/Resample.c). Bit-exact.
Image ResizePillowBilinear(const Image& image, int width, int height);

// Profile "port": ResizePillowBilinear, scale to [0,1], normalise.
std::vector<float> ResizePort(const Image& image, int size);

// ---------------------------------------------------------------------------------------------------------------------
// Exact resizes for LocateAnything

// Pillow BICUBIC in 8 bit, horizontal pass first (Pillow up to 12: src/libImaging/Resample.c, a = -0.5). Bit-exact. A
// pass that changes nothing is left out.
Image ResizePillowBicubic(const Image& image, int width, int height);

// How LocateAnything scales a picture (image_processing_locateanything.py, rescale): down until it has at most
// `token_limit` patches of 14 pixels, then both sides up to multiples of 28. Sides in pixels.
struct RescalePlan {
  int step_width = 0, step_height = 0;  // after scaling down; the picture's own size when nothing is scaled down
  int width = 0, height = 0;            // final, multiples of 28
};
// Sides of 512 patches or more, which the model does not take, are the caller's to refuse.
RescalePlan PlanRescale(int width, int height, int64_t token_limit);

// ---------------------------------------------------------------------------------------------------------------------

// Bilinear, half-pixel centres, edges clamped; for heat maps on overlays. `values` is [from_height, from_width].
std::vector<float> EnlargeBilinear(std::span<const float> values, int from_width, int from_height, int width,
                                   int height);

// ---------------------------------------------------------------------------------------------------------------------
// Pictures out

std::vector<std::byte> EncodePng(const Image& image);
// 8-bit grey, `grey` is [height, width].
std::vector<std::byte> EncodeGreyPng(std::span<const uint8_t> grey, int width, int height);

// One person on an overlay. Colours are given out in order.
struct OverlayPerson {
  Box head;                        // pixels
  std::optional<Point> target;     // pixels; absent: looks out of the picture, drawn as a mark at the head
  std::string label;               // short text beside the head box, "in frame 0.94"
  std::span<const float> heatmap;  // [64, 64] or empty
};

struct OverlayOptions {
  bool blend_heatmaps = false;  // the largest value over all persons, in colour over the picture
  std::string banner;           // drawn over the lower edge when not empty: "synthetic weights"
};

// Draws boxes, arrows, marks and text sized to the picture, so that they read well on 200 pixels and on 4K; small
// pictures are enlarged first. Returns a PNG file.
Result<std::vector<std::byte>> DrawOverlay(const Image& image, std::span<const OverlayPerson> people,
                                           const OverlayOptions& options);

// A thing that was found in a picture.
struct OverlayPlace {
  Box box;                     // pixels
  std::optional<Point> point;  // pixels; where it is set, a disc is drawn there and no box
  std::string label;           // short text beside it
  size_t group = 0;            // places of one group have one colour
};

// As DrawOverlay, of boxes and points.
Result<std::vector<std::byte>> DrawPlaces(const Image& image, std::span<const OverlayPlace> places,
                                          const std::string& banner);

// One array of an npz file: float32, C order.
struct NpzArray {
  std::string name;
  std::vector<int64_t> shape;
  std::span<const float> values;
};
// numpy's .npz: a zip of .npy files, stored (numpy/lib/format.py, version 1.0). The same arrays give the same bytes.
std::vector<std::byte> EncodeNpz(std::span<const NpzArray> arrays);

}  // namespace sightline
