#include "oci/partial_blob.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "oci/blob.h"

namespace sightline {
namespace {

constexpr std::chrono::milliseconds kTick{50};

}  // namespace

PartialBlob::PartialBlob(std::filesystem::path file, const OciDescriptor& blob, const TransferOptions& options)
    : file_(std::move(file)), part_(file_), blob_(blob), options_(options), sha_(std::make_unique<Sha256>()) {
  part_ += ".part";
}

PartialBlob::PartialBlob(PartialBlob&& other) noexcept
    : file_(std::move(other.file_)),
      part_(std::move(other.part_)),
      blob_(std::move(other.blob_)),
      options_(std::move(other.options_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      finished_(other.finished_),
      size_(other.size_),
      sha_(std::move(other.sha_)),
      begins_(other.begins_) {}

PartialBlob::~PartialBlob() {
  if (descriptor_ >= 0) ::close(descriptor_);  // and with it the lock
}

Result<PartialBlob> PartialBlob::Open(const std::filesystem::path& file, const OciDescriptor& blob,
                                      const TransferOptions& options) {
  PartialBlob part(file, blob, options);
  std::error_code problem;
  std::filesystem::create_directories(file.parent_path(), problem);
  if (problem) return tl::make_unexpected(ErrnoError("write", file, problem.value()));
  SIGHTLINE_RETURN_IF_ERROR(part.Lock());
  part.finished_ = CheckBlob(file, blob, nullptr).has_value();
  if (part.finished_) {
    ::unlink(part.part_.c_str());  // ours alone, and of no use
  } else {
    SIGHTLINE_RETURN_IF_ERROR(part.ReadOn());
  }
  return part;
}

// Waits until the part is ours alone. Whoever had it before may have renamed it, so the name is looked at again.
Status PartialBlob::Lock() {
  while (true) {
    descriptor_ = ::open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (descriptor_ < 0) return tl::make_unexpected(ErrnoError("write", part_, errno));
    while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return tl::make_unexpected(ErrnoError("write", part_, errno));
      if (options_.stop.stop_requested()) return Fail(Code::kCancelled, "the transfer was cancelled");
      std::this_thread::sleep_for(kTick);
    }
    struct stat named {
    }, opened{};
    const bool same = ::stat(part_.c_str(), &named) == 0 && ::fstat(descriptor_, &opened) == 0 &&
                      named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
    if (same) return {};
    ::close(std::exchange(descriptor_, -1));
  }
}

Status PartialBlob::ReadOn() {
  const auto add = [this](std::span<const std::byte> bytes) -> Status {
    sha_->Update(bytes);
    size_ += bytes.size();
    return {};
  };
  SIGHTLINE_RETURN_IF_ERROR(ReadPieces(part_, add));
  return size_ > blob_.size ? Restart() : Status();
}

Status PartialBlob::Restart() {
  size_ = 0;
  sha_ = std::make_unique<Sha256>();
  return ::ftruncate(descriptor_, 0) == 0 ? Status() : Status(tl::make_unexpected(ErrnoError("write", part_, errno)));
}

Status PartialBlob::Take(const HttpAnswer& head, std::span<const std::byte> bytes) {
  if (std::exchange(begins_, false) && size_ > 0) {
    const std::string expected = fmt::format("bytes {}-", size_);
    if (head.status != 206) {
      SIGHTLINE_RETURN_IF_ERROR(Restart());
    } else if (!head.Header("Content-Range").starts_with(expected)) {
      return Fail(Code::kInvalidRequest, fmt::format("{}: answers with '{}', expected {}...", PrintableUrl(head.url),
                                                     head.Header("Content-Range"), expected));
    }
  }
  if (bytes.size() > blob_.size - size_) {
    SIGHTLINE_RETURN_IF_ERROR(Restart());
    return Fail(Code::kCorruptWeights, fmt::format("{}: gives more than the {} bytes of the blob {}",
                                                   PrintableUrl(head.url), blob_.size, blob_.digest));
  }
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return tl::make_unexpected(ErrnoError("write", part_, errno));
    const auto written = bytes.first(static_cast<size_t>(count));
    sha_->Update(written);
    size_ += written.size();
    bytes = bytes.subspan(written.size());
  }
  if (options_.progress) options_.progress(size_, blob_.size);
  return {};
}

Status PartialBlob::Finish() {
  const std::string digest = std::string(kDigestPrefix) + std::exchange(sha_, std::make_unique<Sha256>())->HexDigest();
  if (digest != blob_.digest) {
    ::unlink(part_.c_str());  // going on with it would fail for ever
    return Fail(Code::kCorruptWeights, fmt::format("{}: what was received has the digest {}, expected {}",
                                                   file_.string(), digest, blob_.digest));
  }
  if (::fsync(descriptor_) != 0) return tl::make_unexpected(ErrnoError("write", part_, errno));
  if (::rename(part_.c_str(), file_.c_str()) != 0) return tl::make_unexpected(ErrnoError("write", file_, errno));
  return {};
}

}  // namespace sightline
