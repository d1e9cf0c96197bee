#include <openssl/evp.h>

#include <array>

#include "base/base.h"

namespace sightline {
namespace {

EVP_MD_CTX* AsContext(void* context) { return static_cast<EVP_MD_CTX*>(context); }

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  SIGHTLINE_CHECK(context_ != nullptr);
  SIGHTLINE_CHECK(EVP_DigestInit_ex(AsContext(context_), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() { EVP_MD_CTX_free(AsContext(context_)); }

void Sha256::Update(std::span<const std::byte> bytes) {
  SIGHTLINE_CHECK(EVP_DigestUpdate(AsContext(context_), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::HexDigest() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::array<unsigned char, 32> digest;
  SIGHTLINE_CHECK(EVP_DigestFinal_ex(AsContext(context_), digest.data(), nullptr) == 1);
  std::string text;
  for (const unsigned char value : digest) text.append({kDigits[value >> 4], kDigits[value & 15]});
  return text;
}

std::string Sha256Hex(std::span<const std::byte> bytes) {
  Sha256 digest;
  digest.Update(bytes);
  return digest.HexDigest();
}

uint64_t Fnv1a64(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte value : bytes) {
    hash ^= static_cast<uint64_t>(value);
    hash *= 0x100000001b3u;
  }
  return hash;
}

}  // namespace sightline
