// A blob on its way from a registry: a file beside its final name, which the next try goes on with.
#pragma once

#include "net/net.h"
#include "oci/oci.h"

namespace sightline {

// Not thread-safe. Of two processes with the same file, one waits for the other.
class PartialBlob {
 public:
  // kCancelled while waiting. What an earlier try left is read for its digest.
  static Result<PartialBlob> Open(const std::filesystem::path& file, const OciDescriptor& blob,
                                  const TransferOptions& options);
  PartialBlob(PartialBlob&& other) noexcept;
  PartialBlob& operator=(PartialBlob&&) = delete;
  ~PartialBlob();

  bool is_finished() const { return finished_; }  // another process has done it meanwhile
  uint64_t size() const { return size_; }
  void ExpectAnswer() { begins_ = true; }  // before each request
  // Some bytes of an answer; a whole answer (200) to a request for the rest begins anew.
  Status Take(const HttpAnswer& head, std::span<const std::byte> bytes);
  Status Restart();
  // Gives the file its name if the digest is right; else removes it and is kCorruptWeights.
  Status Finish();

 private:
  PartialBlob(std::filesystem::path file, const OciDescriptor& blob, const TransferOptions& options);
  Status Lock();
  Status ReadOn();

  std::filesystem::path file_, part_;
  OciDescriptor blob_;
  TransferOptions options_;
  int descriptor_ = -1;
  bool finished_ = false;
  uint64_t size_ = 0;
  std::unique_ptr<Sha256> sha_;
  bool begins_ = true;  // the next bytes are the first of an answer
};

}  // namespace sightline
