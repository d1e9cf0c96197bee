// Blobs: files that are named after what they hold.
#pragma once

#include "oci/oci.h"

namespace sightline {

inline constexpr size_t kMaxDocumentBytes = 4u << 20;  // of a manifest, an index or a config

std::string DigestOf(std::string_view content);
std::filesystem::path BlobPath(const std::filesystem::path& layout, const std::string& digest);

// Counts bytes for a progress callback and looks at the stop request.
class Transfer {
 public:
  Transfer(const TransferOptions& options, uint64_t total) : options_(&options), total_(total) {}
  Status Add(uint64_t bytes);  // kCancelled

 private:
  const TransferOptions* options_;
  uint64_t done_ = 0, total_;
};

// Reads the whole file, piece by piece.
Status ReadPieces(const std::filesystem::path& file, ByteSink sink);

// A file as a ByteSource. Not thread-safe.
class FileSource {
 public:
  static Result<FileSource> Open(const std::filesystem::path& file);
  FileSource(FileSource&& other) noexcept;
  FileSource& operator=(FileSource&&) = delete;
  ~FileSource();
  Result<size_t> operator()(std::span<std::byte> bytes);
  uint64_t size() const { return size_; }

 private:
  FileSource(std::filesystem::path file, int descriptor, uint64_t size)
      : file_(std::move(file)), descriptor_(descriptor), size_(size) {}
  std::filesystem::path file_;
  int descriptor_;
  uint64_t size_;
};

// kNotFound, or kCorruptWeights with what was expected. `transfer` may be null.
Status CheckBlob(const std::filesystem::path& file, const OciDescriptor& blob, Transfer* transfer);
// A small one, read and checked.
Result<std::string> ReadDocument(const std::filesystem::path& file, const OciDescriptor& blob);

// Writes a file beside its final name, so that it appears whole.
Status WriteDocument(const std::filesystem::path& file, std::string_view content);

}  // namespace sightline
