#include "oci/decompressor.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <cerrno>

#include "oci/blob.h"

namespace sightline {
namespace {

constexpr size_t kPieceBytes = 256 * 1024;
constexpr uint64_t kRatioCountsFrom = uint64_t{64} << 20;

}  // namespace

Decompressor::Decompressor(ByteSource source, const UnpackLimits& limits, const TransferOptions& options,
                           uint64_t packed_bytes)
    : source_(source),
      max_ratio_(limits.max_ratio),
      total_(packed_bytes),
      options_(&options),
      packed_(kPieceBytes),
      plain_(kPieceBytes),
      reader_(archive_read_new(), archive_read_free) {}

Decompressor::~Decompressor() = default;

Result<std::unique_ptr<Decompressor>> Decompressor::Open(ByteSource source, const UnpackLimits& limits,
                                                         const TransferOptions& options, uint64_t packed_bytes) {
  auto decompressor = std::unique_ptr<Decompressor>(new Decompressor(source, limits, options, packed_bytes));
  SIGHTLINE_RETURN_IF_ERROR(decompressor->Start());
  return decompressor;
}

Status Decompressor::Start() {
  archive* reader = reader_.get();
  if (reader == nullptr) return Fail(Code::kOutOfMemory, "archive: there is no memory to read it");
  for (auto* support :
       {archive_read_support_filter_gzip, archive_read_support_filter_zstd, archive_read_support_filter_xz,
        archive_read_support_filter_bzip2, archive_read_support_format_raw, archive_read_support_format_empty}) {
    support(reader);
  }
  const auto read = [](archive* of, void* self, const void** bytes) -> la_ssize_t {
    auto& decompressor = *static_cast<Decompressor*>(self);
    const auto count = decompressor.ReadPacked();
    *bytes = decompressor.packed_.data();
    if (count) return static_cast<la_ssize_t>(*count);
    archive_set_error(of, EIO, "the source failed");
    return ARCHIVE_FATAL;
  };
  if (archive_read_open(reader, this, nullptr, read, nullptr) != ARCHIVE_OK) return tl::make_unexpected(Broken());
  archive_entry* entry = nullptr;
  const int result = archive_read_next_header(reader, &entry);
  ended_ = result == ARCHIVE_EOF;  // nothing at all
  return ended_ || result == ARCHIVE_OK || result == ARCHIVE_WARN ? Status() : Status(tl::make_unexpected(Broken()));
}

Result<size_t> Decompressor::ReadPacked() {
  SIGHTLINE_RETURN_IF_ERROR(failure_);
  if (options_->stop.stop_requested()) failure_ = Fail(Code::kCancelled, "the transfer was cancelled");
  const auto count = failure_ ? source_(packed_) : Result<size_t>(0);
  if (!count) failure_ = tl::make_unexpected(count.error());
  SIGHTLINE_RETURN_IF_ERROR(failure_);
  packed_sha_.Update(std::span(packed_).first(*count));
  done_ += *count;
  if (options_->progress) options_->progress(done_, total_);
  return *count;
}

Result<std::span<const std::byte>> Decompressor::Read() {
  if (ended_) return std::span<const std::byte>();
  const la_ssize_t count = archive_read_data(reader_.get(), plain_.data(), plain_.size());
  if (count < 0) return tl::make_unexpected(Broken());
  ended_ = count == 0;
  const auto bytes = std::span(plain_).first(static_cast<size_t>(count));
  plain_sha_.Update(bytes);
  plain_bytes_ += bytes.size();
  if (plain_bytes_ > kRatioCountsFrom && plain_bytes_ / max_ratio_ > done_) {
    return Fail(Code::kInvalidRequest, fmt::format("archive: unpacks to more than {} times its size ({} bytes from {})",
                                                   max_ratio_, plain_bytes_, done_));
  }
  return std::span<const std::byte>(bytes);
}

Status Decompressor::Finish() {
  while (!ended_) SIGHTLINE_RETURN_IF_ERROR(Read());
  while (true) {
    SIGHTLINE_ASSIGN_OR_RETURN(const size_t count, ReadPacked());
    if (count == 0) return {};
  }
}

std::string Decompressor::PackedDigest() { return std::string(kDigestPrefix) + packed_sha_.HexDigest(); }
std::string Decompressor::PlainDigest() { return std::string(kDigestPrefix) + plain_sha_.HexDigest(); }

Error Decompressor::Broken() const {
  if (!failure_) return failure_.error();
  const char* said = archive_error_string(reader_.get());
  return Error{Code::kInvalidRequest, fmt::format("archive: is damaged: {}", said == nullptr ? "unknown" : said), {}};
}

}  // namespace sightline
