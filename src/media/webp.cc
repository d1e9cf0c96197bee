#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>
#include <string>

#include "media/codecs.h"

namespace sightline {
namespace {

constexpr size_t kRiffHead = 8;  // "RIFF" and the number of bytes that follow

Error Truncated() { return {Code::kImageTruncated, "the WebP file ends before its picture is complete", {}}; }
Error Damaged() { return {Code::kImageUndecodable, "the WebP file is damaged", {}}; }

uint64_t LittleEndian32(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

int OrientationOf(WebPDemuxer* demuxer) {
  WebPChunkIterator chunk;
  if (!WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk)) return 1;
  const int orientation = ExifOrientation(std::as_bytes(std::span(chunk.chunk.bytes, chunk.chunk.size)));
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

// Paints a frame at its place on the canvas, which has `channels` bytes a pixel.
bool PaintFrame(const WebPIterator& frame, int canvas_width, int channels, std::vector<uint8_t>& canvas) {
  const size_t stride = static_cast<size_t>(canvas_width) * static_cast<size_t>(channels);
  const size_t begin = static_cast<size_t>(frame.y_offset) * stride + static_cast<size_t>(frame.x_offset * channels);
  const auto decode = channels == 4 ? WebPDecodeRGBAInto : WebPDecodeRGBInto;
  return decode(frame.fragment.bytes, frame.fragment.size, canvas.data() + begin, canvas.size() - begin,
                static_cast<int>(stride)) != nullptr;
}

Result<DecodedImage> DecodeFirstFrame(WebPDemuxer* demuxer, const WebPIterator& frame, const DecodeOptions& options) {
  const auto width = static_cast<int>(WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH));
  const auto height = static_cast<int>(WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT));
  SIGHTLINE_RETURN_IF_ERROR(CheckSize(width, height, options));
  const bool covers = frame.width == width && frame.height == height;
  const bool alpha = !options.reference && (frame.has_alpha != 0 || !covers);
  const int channels = alpha ? 4 : 3;
  std::vector<uint8_t> canvas(static_cast<size_t>(width) * static_cast<size_t>(height) * static_cast<size_t>(channels));
  if (!PaintFrame(frame, width, channels, canvas)) return tl::make_unexpected(Damaged());

  DecodedImage decoded;
  decoded.format = "webp";
  decoded.exif_orientation = OrientationOf(demuxer);
  bool transparent = false;
  decoded.image =
      alpha ? OnWhite(width, height, std::move(canvas), &transparent) : Image{width, height, std::move(canvas)};
  if (transparent) decoded.warnings.emplace_back("alpha: the transparent parts of the picture were put on white");
  if (frame.num_frames > 1) {
    decoded.warnings.push_back("animated: the file has " + std::to_string(frame.num_frames) +
                               " frames, the first is used");
  }
  return decoded;
}

}  // namespace

Result<DecodedImage> DecodeWebp(std::span<const std::byte> file, const DecodeOptions& options) {
  if (file.size() < kRiffHead || LittleEndian32(file.subspan(4)) > file.size() - kRiffHead) {
    return tl::make_unexpected(Truncated());
  }
  const WebPData data = {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
  const std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)> demuxer(WebPDemux(&data), WebPDemuxDelete);
  if (demuxer == nullptr) return tl::make_unexpected(Damaged());
  WebPIterator frame = {};
  if (!WebPDemuxGetFrame(demuxer.get(), 1, &frame)) return tl::make_unexpected(Damaged());
  const std::unique_ptr<WebPIterator, decltype(&WebPDemuxReleaseIterator)> release(&frame, WebPDemuxReleaseIterator);
  return DecodeFirstFrame(demuxer.get(), frame, options);
}

}  // namespace sightline
