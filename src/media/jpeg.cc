#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <string>
// The library's headers need <cstdio> before them.
#include <jerror.h>
#include <jpeglib.h>

#include "media/codecs.h"

namespace sightline {
namespace {

// libjpeg reports errors by a callback that must not return, so every call into it runs inside one of the methods below
// between setjmp and longjmp. No object with a destructor lives in those frames.
class JpegReader {
 public:
  explicit JpegReader(std::span<const std::byte> file);
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  // Each returns false on an error, which error() then tells.
  bool ReadHeader();
  bool Start();
  bool ReadRow(uint8_t* row);
  bool Finish();

  Error error() const;
  int width() const { return static_cast<int>(info_.image_width); }
  int height() const { return static_cast<int>(info_.image_height); }
  int orientation() const { return orientation_; }
  // Rows have C, M, Y, K, inverted, instead of R, G, B.
  bool is_cmyk() const { return info_.out_color_space == JCS_CMYK; }

 private:
  // A progressive file may hold any number of passes over the whole picture in a few bytes; real ones have about ten.
  static constexpr int kMaxScans = 100;
  // Reasons beside the library's own numbers.
  static constexpr int kTruncated = -1;
  static constexpr int kTooManyScans = -2;
  static constexpr int kComponents = -3;

  static JpegReader& Of(j_common_ptr info) { return *static_cast<JpegReader*>(info->client_data); }
  [[noreturn]] static void Stop(j_common_ptr info, int reason);
  static void OnMessage(j_common_ptr info, int level);
  static void OnProgress(j_common_ptr info);
  static boolean OnEndOfFile(j_decompress_ptr info);
  static void Skip(j_decompress_ptr info, long count);

  jpeg_decompress_struct info_ = {};
  jpeg_error_mgr errors_ = {};
  jpeg_source_mgr source_ = {};
  jpeg_progress_mgr progress_ = {};
  std::jmp_buf jump_;
  int reason_ = 0;
  int orientation_ = 1;
};

JpegReader::JpegReader(std::span<const std::byte> file) {
  info_.err = jpeg_std_error(&errors_);
  errors_.error_exit = [](j_common_ptr info) { Stop(info, info->err->msg_code); };
  errors_.emit_message = OnMessage;
  errors_.output_message = [](j_common_ptr) {};
  info_.client_data = this;
  source_.next_input_byte = reinterpret_cast<const JOCTET*>(file.data());
  source_.bytes_in_buffer = file.size();
  source_.init_source = [](j_decompress_ptr) {};
  source_.fill_input_buffer = OnEndOfFile;
  source_.skip_input_data = Skip;
  source_.resync_to_restart = jpeg_resync_to_restart;
  source_.term_source = [](j_decompress_ptr) {};
  progress_.progress_monitor = OnProgress;
}

void JpegReader::Stop(j_common_ptr info, int reason) {
  JpegReader& reader = Of(info);
  reader.reason_ = reason;
  std::longjmp(reader.jump_, 1);
}

// The library paints what it cannot read grey and goes on with a warning; here the damage is an error.
void JpegReader::OnMessage(j_common_ptr info, int level) {
  constexpr int kHarmless[] = {JWRN_ADOBE_XFORM, JWRN_BOGUS_ICC, JWRN_EXTRANEOUS_DATA, JWRN_JFIF_MAJOR,
                               JWRN_NOT_SEQUENTIAL};
  if (level >= 0 || std::ranges::count(kHarmless, info->err->msg_code) > 0) return;
  Stop(info, info->err->msg_code == JWRN_HIT_MARKER ? kTruncated : info->err->msg_code);
}

void JpegReader::OnProgress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) Stop(info, kTooManyScans);
}

boolean JpegReader::OnEndOfFile(j_decompress_ptr info) { Stop(reinterpret_cast<j_common_ptr>(info), kTruncated); }

void JpegReader::Skip(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  const auto bytes = static_cast<size_t>(count);
  if (bytes > info->src->bytes_in_buffer) OnEndOfFile(info);
  info->src->next_input_byte += bytes;
  info->src->bytes_in_buffer -= bytes;
}

bool JpegReader::ReadHeader() {
  constexpr int kExifMarker = JPEG_APP0 + 1;
  constexpr unsigned int kWholeSegment = 0xffff;
  if (setjmp(jump_) != 0) return false;
  jpeg_create_decompress(&info_);
  info_.src = &source_;
  info_.progress = &progress_;
  jpeg_save_markers(&info_, kExifMarker, kWholeSegment);
  jpeg_read_header(&info_, TRUE);
  for (jpeg_saved_marker_ptr marker = info_.marker_list; marker != nullptr && orientation_ == 1;
       marker = marker->next) {
    orientation_ = ExifOrientation(std::as_bytes(std::span(marker->data, marker->data_length)));
  }
  if (info_.num_components == 2 || info_.num_components > 4) {
    Stop(reinterpret_cast<j_common_ptr>(&info_), kComponents);
  }
  info_.out_color_space = info_.num_components == 4 ? JCS_CMYK : JCS_RGB;
  return true;
}

bool JpegReader::Start() {
  if (setjmp(jump_) != 0) return false;
  return jpeg_start_decompress(&info_) != FALSE;
}

bool JpegReader::ReadRow(uint8_t* row) {
  if (setjmp(jump_) != 0) return false;
  return jpeg_read_scanlines(&info_, &row, 1) == 1;
}

bool JpegReader::Finish() {
  if (setjmp(jump_) != 0) return false;
  return jpeg_finish_decompress(&info_) != FALSE;
}

Error JpegReader::error() const {
  switch (reason_) {
    case kTruncated:
      return {Code::kImageTruncated, "the JPEG file ends before its picture is complete", {}};
    case kTooManyScans:
      return {Code::kImageUndecodable,
              "the JPEG has more than " + std::to_string(kMaxScans) + " scans, real pictures have about ten",
              {}};
    case kComponents:
      return {Code::kImageUndecodable,
              "the JPEG has " + std::to_string(info_.num_components) + " colour components, expected 1, 3 or 4",
              {}};
    case JERR_IMAGE_TOO_BIG:
      return {Code::kImageTooLarge,
              "the JPEG is " + std::to_string(width()) + " x " + std::to_string(height()) +
                  " pixels, a side may have at most " + std::to_string(JPEG_MAX_DIMENSION),
              {}};
    case JERR_EMPTY_IMAGE:
      return {Code::kImageUndecodable, "the JPEG's header says a width, height or component count of 0", {}};
    case JERR_BAD_PRECISION:
      return {Code::kImageUndecodable,
              "the JPEG has " + std::to_string(info_.data_precision) + " bits a sample, expected 8",
              {}};
    case JERR_SOF_UNSUPPORTED:
      return {Code::kImageUndecodable,
              "the JPEG is lossless or hierarchical, expected baseline, extended or progressive",
              {}};
    case JERR_OUT_OF_MEMORY:
      return {Code::kOutOfMemory, "there is not enough memory to decode the JPEG", {}};
    default:
      return {Code::kImageUndecodable, "the JPEG file is damaged", {}};
  }
}

// Pillow's conversion: ink values are inverted in the file whether or not an Adobe marker says so.
void CmykToRgb(std::span<const uint8_t> inverted_cmyk, uint8_t* rgb) {
  for (size_t i = 0; i < inverted_cmyk.size(); i += 4) {
    const int white = inverted_cmyk[i + 3];
    for (size_t c = 0; c < 3; ++c) {
      const int ink = 255 - inverted_cmyk[i + c];
      *rgb++ = static_cast<uint8_t>(white - (ink * white * 2 + 255) / 510);
    }
  }
}

}  // namespace

Result<DecodedImage> DecodeJpeg(std::span<const std::byte> file, const DecodeOptions& options) {
  JpegReader reader(file);
  const auto failed = [&reader] { return tl::make_unexpected(reader.error()); };
  if (!reader.ReadHeader()) return failed();
  SIGHTLINE_RETURN_IF_ERROR(CheckSize(reader.width(), reader.height(), options));
  if (!reader.Start()) return failed();

  DecodedImage decoded;
  decoded.format = "jpeg";
  decoded.exif_orientation = reader.orientation();
  Image& image = decoded.image;
  image.width = reader.width();
  image.height = reader.height();
  const auto width = static_cast<size_t>(image.width);
  // Memory is touched row by row, as pixels really come: a small file cannot claim a large picture for nothing.
  image.rgb.reserve(width * static_cast<size_t>(image.height) * 3);
  std::vector<uint8_t> inks(reader.is_cmyk() ? width * 4 : 0);
  for (int y = 0; y < image.height; ++y) {
    image.rgb.resize(image.rgb.size() + width * 3);
    uint8_t* row = image.rgb.data() + image.rgb.size() - width * 3;
    if (!reader.ReadRow(reader.is_cmyk() ? inks.data() : row)) return failed();
    if (reader.is_cmyk()) CmykToRgb(inks, row);
  }
  if (!reader.Finish()) return failed();
  return decoded;
}

}  // namespace sightline
