#include <spng.h>

#include <algorithm>
#include <array>
#include <memory>

#include "media/codecs.h"

namespace sightline {
namespace {

using PngContext = std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)>;

constexpr size_t kSignatureBytes = 8;

// A PNG file without the chunks that have no part in the pixels, so that no text or colour profile is ever inflated.
// Handed to libspng piece by piece; nothing is copied before it asks.
class PixelChunks {
 public:
  explicit PixelChunks(std::span<const std::byte> file);

  int exif_orientation() const { return exif_orientation_; }
  uint64_t compressed_bytes() const { return compressed_bytes_; }
  // The file ends inside a chunk of pixels.
  bool pixels_cut() const { return pixels_cut_; }
  // Makes the chunks the input of a context that lives no longer than they.
  void Attach(spng_ctx* context);

 private:
  void Add(std::span<const std::byte> chunk, std::string_view type);
  static int Read(spng_ctx* context, void* self, void* out, size_t length);

  std::vector<std::span<const std::byte>> pieces_;
  size_t piece_ = 0, offset_ = 0;
  int exif_orientation_ = 1;
  uint64_t compressed_bytes_ = 0;
  bool pixels_cut_ = false;
};

uint32_t BigEndian32(std::span<const std::byte> bytes) {
  uint32_t value = 0;
  for (std::byte byte : bytes.first(4)) value = value << 8 | std::to_integer<uint32_t>(byte);
  return value;
}

PixelChunks::PixelChunks(std::span<const std::byte> file) {
  constexpr size_t kHead = 8, kCrc = 4;  // length and type before a chunk's data, CRC behind
  const auto signature = file.first(std::min(kSignatureBytes, file.size()));
  pieces_.push_back(signature);
  file = file.subspan(signature.size());
  while (!file.empty()) {
    if (file.size() < kHead) {
      pieces_.push_back(file);
      return;
    }
    const size_t length = kHead + BigEndian32(file) + kCrc;
    const auto chunk = file.first(std::min(file.size(), length));
    const std::string_view type(reinterpret_cast<const char*>(chunk.data()) + 4, 4);
    Add(chunk, type);
    if (type == "IDAT") pixels_cut_ = length > file.size();
    if (type == "IEND") return;
    file = file.subspan(chunk.size());
  }
}

void PixelChunks::Add(std::span<const std::byte> chunk, std::string_view type) {
  constexpr char kAncillaryBit = 0x20;
  if (type == "IDAT") compressed_bytes_ += chunk.size();
  if (type == "eXIf") exif_orientation_ = ExifOrientation(chunk.subspan(8));
  if ((type[0] & kAncillaryBit) != 0 && type != "tRNS") return;
  if (pieces_.back().data() + pieces_.back().size() == chunk.data()) {
    pieces_.back() = {pieces_.back().data(), pieces_.back().size() + chunk.size()};
  } else {
    pieces_.push_back(chunk);
  }
}

void PixelChunks::Attach(spng_ctx* context) { spng_set_png_stream(context, Read, this); }

int PixelChunks::Read(spng_ctx*, void* self, void* out, size_t length) {
  auto& chunks = *static_cast<PixelChunks*>(self);
  auto* to = static_cast<std::byte*>(out);
  while (length > 0) {
    if (chunks.piece_ == chunks.pieces_.size()) return SPNG_IO_EOF;
    const auto rest = chunks.pieces_[chunks.piece_].subspan(chunks.offset_);
    const size_t count = std::min(length, rest.size());
    to = std::copy_n(rest.begin(), count, to);
    length -= count;
    chunks.offset_ += count;
    if (count == rest.size()) {
      ++chunks.piece_;
      chunks.offset_ = 0;
    }
  }
  return SPNG_OK;
}

Error PngError(int code) {
  switch (code) {
    case SPNG_IO_EOF:
    case SPNG_EOF:
    case SPNG_EIDAT_TOO_SHORT:
      return {Code::kImageTruncated, "the PNG file ends before its picture is complete", {}};
    case SPNG_EMEM:
      return {Code::kOutOfMemory, "there is not enough memory to decode the PNG", {}};
    case SPNG_ECHUNK_CRC:
      return {Code::kImageUndecodable, "the PNG file is damaged: a checksum is wrong", {}};
    case SPNG_EWIDTH:
    case SPNG_EHEIGHT:
      return {Code::kImageUndecodable, "the PNG's header says a width or height that no picture can have", {}};
    case SPNG_EBIT_DEPTH:
    case SPNG_ECOLOR_TYPE:
      return {Code::kImageUndecodable, "the PNG's header says a colour type or bit depth that does not exist", {}};
    case SPNG_EPLTE_IDX:
      return {Code::kImageUndecodable, "the PNG file is damaged: a pixel's colour is not in its palette", {}};
    default:
      return {Code::kImageUndecodable, "the PNG file is damaged", {}};
  }
}

bool HasAlpha(spng_ctx* context, const spng_ihdr& header) {
  spng_trns transparency;
  return (header.color_type & SPNG_COLOR_TYPE_GRAYSCALE_ALPHA) != 0 || spng_get_trns(context, &transparency) == SPNG_OK;
}

// Deflate makes at most 1032 bytes of one, so that a small file cannot claim the memory of a large picture.
bool CannotBeComplete(const spng_ihdr& header, uint64_t compressed_bytes) {
  constexpr uint64_t kDeflateRatio = 1032;
  constexpr std::array<uint64_t, 7> kChannels = {1, 0, 3, 1, 2, 0, 4};
  const uint64_t bits = uint64_t{header.width} * header.height * header.bit_depth * kChannels[header.color_type];
  return compressed_bytes * kDeflateRatio < bits / 8;
}

}  // namespace

Result<DecodedImage> DecodePng(std::span<const std::byte> file, const DecodeOptions& options) {
  PixelChunks chunks(file);
  const PngContext context(spng_ctx_new(0), spng_ctx_free);
  if (context == nullptr) return tl::make_unexpected(PngError(SPNG_EMEM));
  chunks.Attach(context.get());
  // Of the ancillary chunks only transparency gets this far, and a wrong one would go unseen.
  spng_set_crc_action(context.get(), SPNG_CRC_ERROR, SPNG_CRC_ERROR);
  spng_ihdr header;
  if (int code = spng_get_ihdr(context.get(), &header); code != SPNG_OK) return tl::make_unexpected(PngError(code));
  SIGHTLINE_RETURN_IF_ERROR(CheckSize(header.width, header.height, options));
  if (CannotBeComplete(header, chunks.compressed_bytes())) return tl::make_unexpected(PngError(SPNG_EIDAT_TOO_SHORT));

  const bool alpha = HasAlpha(context.get(), header) && !options.reference;
  std::vector<uint8_t> pixels(size_t{header.width} * header.height * (alpha ? 4 : 3));
  int code = spng_decode_image(context.get(), pixels.data(), pixels.size(), alpha ? SPNG_FMT_RGBA8 : SPNG_FMT_RGB8,
                               alpha ? SPNG_DECODE_TRNS : 0);
  if (code != SPNG_OK) return tl::make_unexpected(PngError(code));
  // The checksum behind the last pixels is read only with what follows them. A missing end chunk does no harm.
  code = spng_decode_chunks(context.get());
  const bool no_end = code == SPNG_IO_EOF && !chunks.pixels_cut();
  if (code != SPNG_OK && !no_end) return tl::make_unexpected(PngError(code));

  DecodedImage decoded;
  decoded.format = "png";
  decoded.exif_orientation = chunks.exif_orientation();
  const auto width = static_cast<int>(header.width), height = static_cast<int>(header.height);
  bool transparent = false;
  decoded.image =
      alpha ? OnWhite(width, height, std::move(pixels), &transparent) : Image{width, height, std::move(pixels)};
  if (transparent) decoded.warnings.emplace_back("alpha: the transparent parts of the picture were put on white");
  return decoded;
}

}  // namespace sightline
