// A compressed stream from a stranger as plain bytes: gzip, zstd, xz, bzip2 or none of them.
#pragma once

#include "oci/oci.h"

struct archive;

namespace sightline {

// Not thread-safe; lives no longer than the source's callable.
class Decompressor {
 public:
  // `packed_bytes` is for progress; 0 when unknown. An error of the source comes out of Read.
  static Result<std::unique_ptr<Decompressor>> Open(ByteSource source, const UnpackLimits& limits,
                                                    const TransferOptions& options, uint64_t packed_bytes);
  ~Decompressor();
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  // Some of the plain bytes, valid until the next call; none at the end. kInvalidRequest for what is damaged and for
  // more than limits.max_ratio times the packed bytes.
  Result<std::span<const std::byte>> Read();
  // Reads both streams to their ends, so that the digests are of all bytes.
  Status Finish();
  std::string PackedDigest();  // once, after Finish
  std::string PlainDigest();

 private:
  Decompressor(ByteSource source, const UnpackLimits& limits, const TransferOptions& options, uint64_t packed_bytes);
  Status Start();
  Result<size_t> ReadPacked();
  Error Broken() const;

  ByteSource source_;
  uint64_t max_ratio_, done_ = 0, total_;
  const TransferOptions* options_;
  std::vector<std::byte> packed_, plain_;
  uint64_t plain_bytes_ = 0;
  Sha256 packed_sha_, plain_sha_;
  Status failure_;  // of the source
  bool ended_ = false;
  std::unique_ptr<archive, int (*)(archive*)> reader_;
};

}  // namespace sightline
