#include "oci/blob.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace sightline {
namespace {

constexpr size_t kPieceBytes = 1 << 20;

tl::unexpected<Error> WrongSize(const std::filesystem::path& file, uint64_t size, uint64_t expected) {
  return Fail(Code::kCorruptWeights, fmt::format("{}: has {} bytes, expected {}", file.string(), size, expected));
}

}  // namespace

bool IsDigest(std::string_view text) {
  if (!text.starts_with(kDigestPrefix)) return false;
  text.remove_prefix(kDigestPrefix.size());
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string DigestOf(std::string_view content) { return std::string(kDigestPrefix) + Sha256Hex(AsBytes(content)); }

std::filesystem::path BlobPath(const std::filesystem::path& layout, const std::string& digest) {
  return layout / "blobs" / "sha256" / digest.substr(kDigestPrefix.size());
}

Status Transfer::Add(uint64_t bytes) {
  if (options_->stop.stop_requested()) return Fail(Code::kCancelled, "the transfer was cancelled");
  done_ += bytes;
  if (options_->progress) options_->progress(done_, total_);
  return {};
}

Result<FileSource> FileSource::Open(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return tl::make_unexpected(ErrnoError("read", file, errno));
  struct stat status {};
  FileSource source(file, descriptor, 0);
  if (::fstat(descriptor, &status) != 0) return tl::make_unexpected(ErrnoError("read", file, errno));
  if (!S_ISREG(status.st_mode)) {
    return Fail(Code::kInvalidRequest, fmt::format("{}: is no file", file.string()));
  }
  source.size_ = static_cast<uint64_t>(status.st_size);
  return source;
}

FileSource::FileSource(FileSource&& other) noexcept
    : file_(std::move(other.file_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

FileSource::~FileSource() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<size_t> FileSource::operator()(std::span<std::byte> bytes) {
  while (true) {
    const ssize_t count = ::read(descriptor_, bytes.data(), bytes.size());
    if (count >= 0) return static_cast<size_t>(count);
    if (errno != EINTR) return tl::make_unexpected(ErrnoError("read", file_, errno));
  }
}

Status ReadPieces(const std::filesystem::path& file, ByteSink sink) {
  SIGHTLINE_ASSIGN_OR_RETURN(FileSource source, FileSource::Open(file));
  std::vector<std::byte> piece(kPieceBytes);
  while (true) {
    SIGHTLINE_ASSIGN_OR_RETURN(const size_t count, source(piece));
    if (count == 0) return {};
    SIGHTLINE_RETURN_IF_ERROR(sink(std::span(piece).first(count)));
  }
}

Status CheckBlob(const std::filesystem::path& file, const OciDescriptor& blob, Transfer* transfer) {
  SIGHTLINE_ASSIGN_OR_RETURN(const FileSource opened, FileSource::Open(file));
  if (opened.size() != blob.size) return WrongSize(file, opened.size(), blob.size);
  Sha256 sha;
  SIGHTLINE_RETURN_IF_ERROR(ReadPieces(file, [&](std::span<const std::byte> bytes) -> Status {
    sha.Update(bytes);
    return transfer == nullptr ? Status() : transfer->Add(bytes.size());
  }));
  const std::string digest = std::string(kDigestPrefix) + sha.HexDigest();
  if (digest == blob.digest) return {};
  return Fail(Code::kCorruptWeights,
              fmt::format("{}: has the digest {}, expected {}", file.string(), digest, blob.digest));
}

Result<std::string> ReadDocument(const std::filesystem::path& file, const OciDescriptor& blob) {
  if (blob.size > kMaxDocumentBytes) {
    return Fail(Code::kInvalidRequest, fmt::format("{}: is said to have {} bytes, expected at most {}", file.string(),
                                                   blob.size, kMaxDocumentBytes));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadFile(file, kMaxDocumentBytes));
  if (bytes.size() != blob.size) return WrongSize(file, bytes.size(), blob.size);
  std::string content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const std::string digest = DigestOf(content); digest != blob.digest) {
    return Fail(Code::kCorruptWeights,
                fmt::format("{}: has the digest {}, expected {}", file.string(), digest, blob.digest));
  }
  return content;
}

Status WriteDocument(const std::filesystem::path& file, std::string_view content) {
  return WriteFileAtomically(file, AsBytes(content));
}

}  // namespace sightline
