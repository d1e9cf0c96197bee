// The digest that names a blob in the cache, computed as its bytes come.
#pragma once

#include <memory>
#include <stop_token>

#include "hub/hub.h"

namespace sightline {

// SHA-256 of the bytes for a name of 64 digits, git's SHA-1 of a blob of `size` bytes for one of 40:
// https://git-scm.com/book/en/v2/Git-Internals-Git-Objects. Not thread-safe.
class BlobDigest {
 public:
  BlobDigest(const std::string& name, uint64_t size);
  void Update(std::span<const std::byte> bytes);
  std::string HexDigest();

 private:
  std::unique_ptr<Sha256> sha256_;
  std::unique_ptr<Sha1> sha1_;
};

// Feeds the first `size` bytes of an open file. `read` is told how many have just been read.
Status DigestFile(int descriptor, const std::filesystem::path& path, uint64_t size, BlobDigest& digest,
                  const std::stop_token& stop, FunctionRef<void(uint64_t bytes)> read);

}  // namespace sightline
