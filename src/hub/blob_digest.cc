#include "hub/blob_digest.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace sightline {
namespace {

constexpr size_t kPieceBytes = 1u << 20;

}  // namespace

BlobDigest::BlobDigest(const std::string& name, uint64_t size) {
  if (name.size() == 64) {
    sha256_ = std::make_unique<Sha256>();
    return;
  }
  sha1_ = std::make_unique<Sha1>();
  const std::string header = "blob " + std::to_string(size);
  sha1_->Update(std::as_bytes(std::span(header.c_str(), header.size() + 1)));  // with the zero behind it
}

void BlobDigest::Update(std::span<const std::byte> bytes) {
  if (sha256_ != nullptr) {
    sha256_->Update(bytes);
  } else {
    sha1_->Update(bytes);
  }
}

std::string BlobDigest::HexDigest() { return sha256_ != nullptr ? sha256_->HexDigest() : sha1_->HexDigest(); }

Status DigestFile(int descriptor, const std::filesystem::path& path, uint64_t size, BlobDigest& digest,
                  const std::stop_token& stop, FunctionRef<void(uint64_t bytes)> read) {
  std::vector<std::byte> piece(static_cast<size_t>(std::min<uint64_t>(size, kPieceBytes)));
  for (uint64_t offset = 0; offset < size;) {
    if (stop.stop_requested()) return Fail(Code::kCancelled, "cancelled");
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(piece.size(), size - offset));
    const ssize_t count = ::pread(descriptor, piece.data(), wanted, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return tl::make_unexpected(ErrnoError("read", path, errno));
    if (count == 0) return Fail(Code::kCorruptWeights, path.string() + " became shorter while it was read");
    digest.Update(std::span(piece).first(static_cast<size_t>(count)));
    read(static_cast<uint64_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return {};
}

}  // namespace sightline
